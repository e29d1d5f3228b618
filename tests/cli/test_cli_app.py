"""The command line itself: version, help, errors and what is imported."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import muhat
from muhat.cli import app

MODULE = sys.modules["muhat.cli.tour"]  # `muhat.cli.tour` is the command


def invoke(*args):
    return CliRunner().invoke(app, list(args))


def test_version():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"muhat {muhat.__version__}"


def test_help_names_every_verb():
    result = invoke("--help")
    assert result.exit_code == 0
    assert "tour" in result.output
    for option in ("--output", "--seed", "--quiet", "--chapter"):
        assert option in invoke("tour", "--help").output


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["tour", "--help"]])
def test_questions_are_answered_without_the_heavy_imports(arguments):
    code = (
        "import sys; from muhat.cli import main\n"
        f"sys.argv = ['muhat', *{arguments!r}]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'jax', 'matplotlib', 'polars', 'pandas',\n"
        "         'muhat.cli.chapters', 'muhat.report'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)


def test_python_m_muhat():
    done = subprocess.run(
        [sys.executable, "-m", "muhat", "--version"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, f"muhat {muhat.__version__}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["tour", "--bad"],
        ["tour", "extra"],
        ["tour", "--seed", "x"],
        ["tour", "--seed", "-1"],
        [],
    ],
)
def test_bad_usage_ends_with_2(arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def one_line(result, status):
    """The single line of an error."""
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_output_that_cannot_be_written_ends_with_2_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "run", lambda *args: pytest.fail("work was done"))
    assert "no folder" in one_line(invoke("tour", "--output", str(tmp_path / "no" / "x.html")), 2)
    assert "is a folder" in one_line(invoke("tour", "--output", str(tmp_path)), 2)


def test_a_disk_that_fills_up_ends_with_2(tmp_path, monkeypatch):
    from muhat.report import Report

    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("muhat.cli.chapters.chapters", list)
    monkeypatch.setattr(Report, "write", full)
    assert "No space left" in one_line(invoke("tour", "-q", "-o", str(tmp_path / "x.html")), 2)


@pytest.mark.parametrize("error", [ValueError, TypeError, muhat.SingularSystem])
def test_refusals_of_the_library_are_one_line(tmp_path, monkeypatch, error):
    def refuse(*args):
        raise error("X must be\n 2-dimensional")

    monkeypatch.setattr(MODULE, "run", refuse)
    message = one_line(invoke("tour", "-o", str(tmp_path / "x.html")), 1)
    assert message == "Error: X must be 2-dimensional\n"


def test_the_traceback_is_shown_when_asked_for(tmp_path, monkeypatch):
    def refuse(*args):
        raise ValueError("no")

    monkeypatch.setattr(MODULE, "run", refuse)
    monkeypatch.setenv("MUHAT_TRACEBACK", "1")
    assert isinstance(invoke("tour", "-o", str(tmp_path / "x.html")).exception, ValueError)


def test_an_interruption_is_no_error_message(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(MODULE, "run", interrupt)
    result = invoke("tour", "-o", str(tmp_path / "x.html"))
    assert result.exit_code == 130
    assert result.stderr == "Interrupted.\n"
