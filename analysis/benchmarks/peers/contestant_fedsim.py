"""fedsim itself: messages, devices, radios, energy, the log and the observer included.

python contestant_fedsim.py WORKLOAD FOLDER VARIANT [KEY=VALUE ...]
"""

import sys
import tempfile
import time
import warnings
from pathlib import Path

from turns import Turn, take_turns

import fedsim
from fedsim.results.record.folder import read_json
from fedsim.running.run import RunProgress, execute
from fedsim.scenario.building import Builder


def main() -> None:
    """Take turns: each is a run, timed from its first round to its last but one."""
    name, folder, variant, *overrides = sys.argv[1:]
    warnings.simplefilter("ignore", fedsim.TheoryWarning)
    plan = fedsim.load(Path(folder) / f"{name}.yaml", overrides=overrides)
    builder = Builder(plan)
    (chosen,) = [each for each in plan.variants if each.name == variant]

    def turn() -> Turn:
        ends: list[tuple[float, float]] = []

        def watch(progress: RunProgress) -> None:
            if progress.round:
                ends.append((time.perf_counter(), time.process_time()))

        with tempfile.TemporaryDirectory() as out:
            made = execute(builder.build(chosen, 1), Path(out), watch)
            asked = read_json(made / "summary.json")["cohort"]
        rounds = len(ends)
        real, processor = (end - begin for begin, end in zip(ends[0], ends[-2], strict=True))
        return Turn(asked // rounds * (rounds - 2), real, processor)

    take_turns(turn)


if __name__ == "__main__":
    main()
