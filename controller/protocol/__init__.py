"""The words between the core and switches, agents and people, as values. Imports model and program."""
