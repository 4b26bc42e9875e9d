"""Input that means harm: scenarios, files of data, and strings of the wire, damaged with method.

    python -m tests.campaigns.hostile scenarios --count 100000 --seed 1
    python -m tests.campaigns.hostile data --count 10000 --seed 1
    python -m tests.campaigns.hostile wire --count 1000000 --seed 1
    python -m tests.campaigns.hostile.guided data --seconds 600

Scenarios are those that ship and random worlds, changed by what their trees are made of: keys,
kinds, numbers, units, depth, and the letters of YAML. Data are files that every reader reads, with
bytes, numbers, headers and sizes changed, packed again where they were packed. Each is read in a
process that has a limit of memory, and an alarm for every case.

A case is a fault unless the input is accepted, or refused by fedsim's own error of its kind: a
scenario by a `ScenarioError` whose faults all say where, data by a `DataError` that names the key,
a string by a `DecodeError`. `guided` lets atheris search, which is led by what code it reaches
(`pip install atheris`; it is no dependency of the tests): without it, the seeds are all there is.
"""
