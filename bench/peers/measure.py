"""Programs that do the same, timed round by round in turns, so that a machine that slows down slows all of them."""

import statistics
import time
from dataclasses import dataclass, field

import numpy as np

SUBJECT = "attune"


@dataclass
class Cell:
    """programs: calls by name, the library's own first; a call answers its result, or None where there is none to check.
    reference(real) is the definition of that result; unchecked are programs whose result is another one, such as draws of
    dropout. work is in `unit` a call. own are programs of this library, or bounds, that the subject does not compete with."""

    name: str
    programs: dict
    reference: object = None
    work: float = 0
    unit: str = "FLOP"
    unchecked: tuple = ()
    own: tuple = ()
    documented_error: float = 0  # of the subject, relative to the largest element, beside the rule
    note: str = ""


@dataclass
class Program:
    rounds: list = field(default_factory=list)  # seconds a call in each round
    best: float = float("inf")
    error: float | None = None  # largest, against float64
    failure: str = ""


@dataclass
class Result:
    cell: Cell
    programs: dict
    allowed: float = 0
    peaks: list = field(default_factory=list)  # FLOP/s, before and after
    others: float = 0  # cores that other processes took meanwhile
    variant: str = ""

    def ok(self, name):
        return name in self.programs and not self.programs[name].failure and bool(self.programs[name].rounds)

    def ratios(self, name, to=SUBJECT):
        """Its time over that of `to`, of each round."""
        return [a / b for a, b in zip(self.programs[name].rounds, self.programs[to].rounds)]

    def ratio(self, name, to=SUBJECT):
        return statistics.median(self.ratios(name, to))

    def median(self, name):
        return statistics.median(self.programs[name].rounds)

    def rate(self, name):
        """Of its best time, in the cell's unit a second."""
        return self.cell.work / self.programs[name].best


def quantile(values, at):
    return float(np.quantile(values, at))


def rest():
    """Until this process has stopped computing: threads of OpenMP and onnxruntime spin for a while after a call."""
    for _ in range(100):
        used = time.process_time()
        time.sleep(0.002)
        if time.process_time() - used < 0.0002:
            return


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def check(cell, result):
    """The rule of the tests: at most twice the error of the plain computation in f32, and a floor for rounding."""
    if cell.reference is None:
        return
    exact, plain = cell.reference(np.float64), cell.reference(np.float32)
    exact, plain = (x if isinstance(x, tuple) else (x,) for x in (exact, plain))
    result.allowed = 1.0  # errors are given as a share of what is allowed
    allowed = []
    for e, p in zip(exact, plain):
        largest = np.abs(e).max()
        allowed.append(2 * np.abs(e - p).max() + (8 * np.finfo(np.float32).eps + cell.documented_error) * largest)
    for name, call in cell.programs.items():
        program = result.programs[name]
        if program.failure or name in cell.unchecked:
            continue
        got = call()
        if got is None:
            continue
        got = got if isinstance(got, tuple) else (got,)
        # Where a program answers less than the reference holds, what it answers is compared.
        errors = [np.abs(e - np.asarray(g).reshape(e.shape)).max() / a for e, g, a in zip(exact, got, allowed)]
        program.error = float("inf") if np.isnan(errors).any() else float(max(errors))
        if name == SUBJECT and not program.error <= 1:
            program.failure = f"wrong result: {program.error:.3g} times the error that is allowed"


def measure(cell, attune, rounds, seconds=0.03):
    """Programs that fail are kept with what they said; the others go on."""
    result = Result(cell, {name: Program() for name in cell.programs})
    calls = {}
    for name, call in cell.programs.items():
        try:
            call()
            if name == SUBJECT:
                result.variant = attune.last_variant()
            calls[name] = max(1, min(200, round(seconds / max(1e-7, min(timed(call) for _ in range(3))))))
        except Exception as error:  # whatever a library raises: an operator that it does not have, no compiler...
            result.programs[name].failure = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
    check(cell, result)
    running = [name for name in calls if not result.programs[name].failure]
    start, others = time.perf_counter(), attune.cpu_seconds_of_others()
    result.peaks.append(attune.fma_peak())
    for n in range(rounds):
        for name in running[n % len(running) :] + running[: n % len(running)] if running else []:
            call, program = cell.programs[name], result.programs[name]
            rest()
            call()  # wakes its threads
            times = [timed(call) for _ in range(calls[name])]
            program.rounds.append(statistics.median(times))
            program.best = min(program.best, *times)
    result.peaks.append(attune.fma_peak())
    result.others = (attune.cpu_seconds_of_others() - others) / (time.perf_counter() - start)
    return result
