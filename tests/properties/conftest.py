"""Profiles: the same examples each time by default; ``HYPOTHESIS_PROFILE=long`` draws many new ones."""

import os

from hypothesis import HealthCheck, Phase, settings

ALWAYS = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
settings.register_profile("default", derandomize=True, phases=[Phase.explicit, Phase.generate], **ALWAYS)
settings.register_profile("long", print_blob=True, **ALWAYS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
