"""Analysis: frames in, tables and figures out."""

from typing import TYPE_CHECKING

from fedsim.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.analysis.compare.answer import answer
    from fedsim.analysis.compare.causes import Causes, causes, explain
    from fedsim.analysis.compare.comparison import Comparison
    from fedsim.analysis.compare.cost_tables import COMPARED, Target, pair, summarise
    from fedsim.analysis.compare.dominance import Decisions, pareto
    from fedsim.analysis.compare.runs import EndedRuns, gather, labels_of, so_far
    from fedsim.analysis.compare.trade_offs import cost_bars, pareto_scatter
    from fedsim.analysis.costs import (
        cost_table,
        cost_to_target,
        cumulative,
        final_cost,
        mean_cost,
        measures_in,
        outcome_table,
        outcomes,
        with_grams,
    )
    from fedsim.analysis.energy import ENERGY_PARTS, energy_parts, state_of_charge
    from fedsim.analysis.figures import convergence, progress
    from fedsim.analysis.latex import paper_tables
    from fedsim.analysis.log.edges import edges
    from fedsim.analysis.log.energy import battery_deaths, idle_and_tail
    from fedsim.analysis.log.example_log import example_log
    from fedsim.analysis.log.fairness import fairness, gini, jain
    from fedsim.analysis.log.messages import (
        bits_by_layer,
        bits_by_message,
        lost_messages,
        server_queue,
    )
    from fedsim.analysis.log.participation import (
        OUTCOMES,
        participation,
        round_outcomes,
        silences,
        staleness,
    )
    from fedsim.analysis.log.rounds import critical_path, deciding_clients, stragglers
    from fedsim.analysis.log.targets import speedup
    from fedsim.analysis.log.usage import client_utilisation, link_utilisation
    from fedsim.analysis.log.waiting import CAUSES, waiting_by_cause
    from fedsim.analysis.paper_style import PaperStyle
    from fedsim.analysis.plots.amounts import stacked_bars
    from fedsim.analysis.plots.clients import (
        plot_outcomes,
        plot_participation,
        plot_silence,
        plot_upload_cdf,
    )
    from fedsim.analysis.plots.costs import plot_pareto, plot_time_to_target
    from fedsim.analysis.plots.curves import plot_curves
    from fedsim.analysis.plots.energy import plot_batteries, plot_energy
    from fedsim.analysis.plots.network import animate_network, plot_network
    from fedsim.analysis.plots.rounds import plot_round
    from fedsim.analysis.ranks import cost_to_end, ranking
    from fedsim.analysis.saving import save
    from fedsim.analysis.seeds import over_seeds
    from fedsim.analysis.style import (
        AXES,
        COLOURS,
        DEVICE_COLOURS,
        EVERY_AXIS,
        GREY,
        PART_COLOURS,
        label_axis,
        look,
        name_variants,
        panels,
        typeset,
        typeset_labels,
    )
    from fedsim.analysis.timeline import STATES, link_load, spans, time_in_states
    from fedsim.analysis.trace import Log, write_trace
    from fedsim.analysis.trace_files import write_traces
    from fedsim.tables import listing
    from fedsim.text import quantity
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "AXES",
    "CAUSES",
    "COLOURS",
    "COMPARED",
    "DEVICE_COLOURS",
    "ENERGY_PARTS",
    "EVERY_AXIS",
    "GREY",
    "OUTCOMES",
    "PART_COLOURS",
    "STATES",
    "Causes",
    "Comparison",
    "Decisions",
    "EndedRuns",
    "Log",
    "PaperStyle",
    "Target",
    "animate_network",
    "answer",
    "battery_deaths",
    "bits_by_layer",
    "bits_by_message",
    "causes",
    "client_utilisation",
    "convergence",
    "cost_bars",
    "cost_table",
    "cost_to_end",
    "cost_to_target",
    "critical_path",
    "cumulative",
    "deciding_clients",
    "edges",
    "energy_parts",
    "example_log",
    "explain",
    "fairness",
    "final_cost",
    "gather",
    "gini",
    "idle_and_tail",
    "jain",
    "label_axis",
    "labels_of",
    "link_load",
    "link_utilisation",
    "listing",
    "look",
    "lost_messages",
    "mean_cost",
    "measures_in",
    "name_variants",
    "outcome_table",
    "outcomes",
    "over_seeds",
    "pair",
    "panels",
    "paper_tables",
    "pareto",
    "pareto_scatter",
    "participation",
    "plot_batteries",
    "plot_curves",
    "plot_energy",
    "plot_network",
    "plot_outcomes",
    "plot_pareto",
    "plot_participation",
    "plot_round",
    "plot_silence",
    "plot_time_to_target",
    "plot_upload_cdf",
    "progress",
    "quantity",
    "ranking",
    "round_outcomes",
    "save",
    "server_queue",
    "silences",
    "so_far",
    "spans",
    "speedup",
    "stacked_bars",
    "staleness",
    "state_of_charge",
    "stragglers",
    "summarise",
    "time_in_states",
    "typeset",
    "typeset_labels",
    "waiting_by_cause",
    "with_grams",
    "write_trace",
    "write_traces",
]
