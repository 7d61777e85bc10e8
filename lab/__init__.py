"""The lab: one library for tests, experiments and the bench, with the product's real parts on a stage."""
