"""Questions that people ask of a log, one function each: tables of runs in, a table out."""
