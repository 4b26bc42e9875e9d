"""The record: event log, round table, ledger; written by runs and read by analysis."""
