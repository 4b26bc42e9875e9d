"""Run records: event log, round table, ledger; written by runs and read by the analysis."""
