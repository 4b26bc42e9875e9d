"""Energy: shares of idle time and of tails, and batteries that ran empty.

Energy by part, by kind of device and by client is `fedsim.results.analysis.energy_parts`.
"""

import pandas as pd

from fedsim.results.analysis.log.frames import check_columns, is_event
from fedsim.results.analysis.log.runs import RUN, by_run
from fedsim.results.analysis.timeline import shares_of_time

_STATES = ("idle", "tail", "promotion")
_ENERGY = tuple(f"{name}_joules" for name in _STATES)


def idle_and_tail(events: pd.DataFrame, clients: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of time and of energy that clients spent idle, in tails and in promotions.

    Shares of time are those of `time_in_states`: a tail during which the client computes is time
    of computing. Shares of energy are of all joules of the client; idle power flows at all times.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.
        clients: the client table of the same runs.

    Returns:
        One row per client that the log mentions: variant and seed, where the tables have them;
        client, idle_time, tail_time, promotion_time (shares of the run's length, from 0 to 1),
        idle_energy, tail_energy, promotion_energy (shares of the client's joules, from 0 to 1;
        NaN of a client that spent none).

    Raises:
        DataError: a table lacks a column.

    Example:
        >>> answer = idle_and_tail(log.events, log.clients)
        >>> print(answer.head(2).round(3).T.to_string(header=False))
        variant                 gd        gd
        seed                     1         1
        client            client-0  client-1
        idle_time              0.0       0.0
        tail_time            0.909     0.909
        promotion_time        0.09      0.09
        idle_energy          0.245     0.245
        tail_energy          0.676     0.676
        promotion_energy     0.076     0.076
    """
    check_columns(clients, "clients", ("client", "joules", *_ENERGY))
    times = shares_of_time(events)
    keys = [name for name in (*RUN, "client") if name in times and name in clients]
    times = times[[*keys, *_STATES]].rename(columns={name: f"{name}_time" for name in _STATES})
    spent = clients["joules"].where(clients["joules"] > 0)
    shares = clients[keys].assign(
        **{f"{name}_energy": clients[f"{name}_joules"] / spent for name in _STATES}
    )
    plain = dict.fromkeys(set(keys) - {"seed"}, object)
    return times.astype(plain).merge(shares.astype(plain), how="left", on=keys)


def battery_deaths(events: pd.DataFrame) -> pd.DataFrame:
    """Return when batteries reached their cut-off, and for how long their clients were off.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per death, in order: variant and seed, where the log has them; client, death (of
        that client, from 1), t (s), round (in which it died; the row of the log has none),
        rounds_before (rounds that had been committed), off_s (until the battery was charged again,
        or the run ended, s), and recovered (whether it was charged before the run ended). A client
        whose battery was empty from the start has died at 0 s. A client whose charge is too low to
        take part, but above the cut-off, has not died: column `left_s` of the client table says
        when it left for good.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = battery_deaths(log.events)
        >>> print(answer.head(2).round(3).to_string(index=False))
        variant  seed   client  death     t  round  rounds_before  off_s  recovered
             gd     1 client-2      1 1.296      2              1  0.568       True
             gd     1 client-2      2 2.232      8              7  0.568       True
    """
    check_columns(events, "events", ("t", "event", "node"))
    return by_run(events, _battery_deaths)


def _battery_deaths(events: pd.DataFrame) -> pd.DataFrame:
    committed = is_event(events, "round").cumsum()
    end = float(events["t"].max()) if len(events) else 0.0
    there = is_event(events, "depleted", "charged")
    own = events.loc[there, ["t", "event", "node"]].assign(rounds_before=committed[there])
    own = own.assign(round=own["rounds_before"] + 1)
    own = own.assign(client=own["node"].astype(object))
    following = own.groupby("client", sort=False)
    back = following["t"].shift(-1).where(following["event"].shift(-1) == "charged")
    own = own.assign(off_s=back.fillna(end) - own["t"], recovered=back.notna())
    deaths = own[own["event"] == "depleted"]
    deaths = deaths.assign(death=deaths.groupby("client", sort=False).cumcount() + 1)
    names = ["client", "death", "t", "round", "rounds_before", "off_s", "recovered"]
    return deaths[names].reset_index(drop=True)
