"""What every test shares."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """The matrices of the tests are small: BLAS threads cost more than they give, above all on busy cores."""
    with threadpool_limits(1, user_api="blas"):
        yield
