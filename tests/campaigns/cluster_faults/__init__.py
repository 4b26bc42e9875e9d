"""Faults of a cluster's parts: nothing is lost, nothing is there twice, the bytes are the same.

A study goes to a scheduler and two workers of Dask's, which are processes of their own and reach
each other over TCP. When so many of its runs have ended, and a drawn moment later, something is
done to a part: it is killed, ended, or stopped for a while; or the wire to it is cut, or carries
nothing for a while. Workers see the study's folder, or not. A fault is

- a command that does not end as it has to: one whose worker, nanny or wire fails makes all runs;
  one whose scheduler is gone says so, and how many runs had not ended; an interrupted one says so;
- a run that is told to have ended twice, or that is made anew though it was whole;
- a study that the same command does not complete, or whose files have other bytes than those of
  an undisturbed one, or that holds a file more or less.

    python -m tests.campaigns.cluster_faults --count 50 --seed 1
"""
