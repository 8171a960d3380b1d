"""How property tests run: few examples each, and no deadline, since the machine may be busy."""

from hypothesis import settings

settings.register_profile("unit", max_examples=40, deadline=None, print_blob=True)
settings.load_profile("unit")
