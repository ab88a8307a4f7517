"""Tests of the plumbing with a processor that only counts."""
