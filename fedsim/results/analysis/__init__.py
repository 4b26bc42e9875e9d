"""Analysis of recorded runs: pandas tables in, tables and figures out."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.core.tables import listing
    from fedsim.core.text import quantity
    from fedsim.results.analysis.batteries import battery_figures, battery_lives
    from fedsim.results.analysis.compare.answer import answer
    from fedsim.results.analysis.compare.causes import Causes, causes, explain, explained
    from fedsim.results.analysis.compare.comparison import Comparison
    from fedsim.results.analysis.compare.cost_tables import COMPARED, Target, pair, summarise
    from fedsim.results.analysis.compare.dominance import Decisions, pareto
    from fedsim.results.analysis.compare.runs import EndedRuns, gather, labels_of, so_far
    from fedsim.results.analysis.compare.trade_offs import cost_bars, pareto_scatter
    from fedsim.results.analysis.costs import (
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
    from fedsim.results.analysis.energy import ENERGY_PARTS, energy_parts, state_of_charge
    from fedsim.results.analysis.figures import convergence, progress
    from fedsim.results.analysis.latex import paper_tables
    from fedsim.results.analysis.log.edges import edges
    from fedsim.results.analysis.log.energy import battery_deaths, idle_and_tail
    from fedsim.results.analysis.log.example_log import example_log
    from fedsim.results.analysis.log.fairness import fairness, gini, jain
    from fedsim.results.analysis.log.messages import (
        bits_by_layer,
        bits_by_message,
        lost_messages,
        server_queue,
    )
    from fedsim.results.analysis.log.participation import (
        OUTCOMES,
        participation,
        round_outcomes,
        silences,
        staleness,
    )
    from fedsim.results.analysis.log.rounds import critical_path, deciding_clients, stragglers
    from fedsim.results.analysis.log.targets import speedup
    from fedsim.results.analysis.log.usage import client_utilisation, link_utilisation
    from fedsim.results.analysis.log.waiting import CAUSES, waiting_by_cause
    from fedsim.results.analysis.paper_style import PaperStyle
    from fedsim.results.analysis.plots.amounts import stacked_bars
    from fedsim.results.analysis.plots.clients import (
        plot_outcomes,
        plot_participation,
        plot_silence,
        plot_upload_cdf,
    )
    from fedsim.results.analysis.plots.costs import plot_pareto, plot_time_to_target
    from fedsim.results.analysis.plots.curves import plot_curves
    from fedsim.results.analysis.plots.energy import plot_batteries, plot_energy
    from fedsim.results.analysis.plots.network import animate_network, plot_network
    from fedsim.results.analysis.plots.rounds import plot_round
    from fedsim.results.analysis.ranks import cost_to_end, ranking
    from fedsim.results.analysis.saving import save
    from fedsim.results.analysis.seeds import over_seeds
    from fedsim.results.analysis.style import (
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
    from fedsim.results.analysis.timeline import STATES, link_load, spans, time_in_states
    from fedsim.results.analysis.trace import Log, write_trace
    from fedsim.results.analysis.trace_files import write_traces
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
    "battery_figures",
    "battery_lives",
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
    "explained",
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
