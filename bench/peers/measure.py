# SPDX-License-Identifier: MIT
"""Programs that do the same, timed round by round in turns, so that a machine that slows down slows all of them."""

import statistics
import time
from dataclasses import dataclass, field

import numpy as np

from results import SAME_RESULT, SUBJECT

# A peer that takes so many times as long as the quickest is in every so manieth round only, the first included.
SLOW = {2: 5, 8: 1000}
WAKING = 0.4  # seconds
QUIET = 0.005  # seconds, longer than a tick of the kernel's clock
LONG = 0.1  # seconds; a call so long needs no other to warm up for it
# Seconds of calls before the counted ones. Measured: a virtual core that sleeps takes up to 1.2 ms to come back, and a program
# that does not wait for it computes alone meanwhile.
WARM = 0.003


@dataclass
class Cell:
    """programs: calls by name, the library's own first; a call answers its result (or a function that answers it), or None
    where there is none to check. reference(real) is the definition of that result, sample(result) the part of it that the
    definition gives; unchecked are programs whose result is another one, such as draws of dropout. work is in `unit` a call,
    works that of programs that do another amount. own are programs of this library, or bounds, that the subject does not
    compete with; bound is the one whose time stands for the machine's limit, else peak is "fma", "dot" or nothing. wanted is
    the least ratio to a peer, wanted_of that to peers of another limit, by the start of their names."""

    name: str
    programs: dict
    reference: object = None
    work: float = 0
    unit: str = "FLOP"
    unchecked: tuple = ()
    own: tuple = ()
    documented_error: float = 0  # of the subject, relative to the largest element, beside the rule
    note: str = ""
    works: dict = field(default_factory=dict)
    sample: object = None
    epsilon: float = 8 * float(np.finfo(np.float32).eps)  # the floor for rounding, relative to the largest element
    peak: str = "fma"
    bound: str = ""
    wanted: float = 1.25
    wanted_of: dict = field(default_factory=dict)

    def limit(self, peer):
        return next((x for start, x in self.wanted_of.items() if peer.startswith(start)), self.wanted)


@dataclass
class Program:
    rounds: dict = field(default_factory=dict)  # seconds a call, by round
    best: float = float("inf")
    error: float | None = None  # largest, against float64, as a share of what is allowed
    apart: float | None = None  # largest difference from the subject's result, all elements, as such a share
    failure: str = ""


@dataclass
class Result:
    cell: Cell
    programs: dict
    peaks: dict = field(default_factory=dict)  # FLOP/s, by round
    others: float = 0  # cores that other processes took meanwhile
    variant: str = ""

    def ok(self, name):
        return name in self.programs and not self.programs[name].failure and bool(self.programs[name].rounds)

    def ratios(self, name, to=SUBJECT):
        """Its time over that of `to`, of each round in which both ran."""
        a, b = self.programs[name].rounds, self.programs[to].rounds
        return [a[n] / b[n] for n in a if n in b]

    def ratio(self, name, to=SUBJECT):
        return statistics.median(self.ratios(name, to))

    def median(self, name):
        return statistics.median(self.programs[name].rounds.values())

    def work(self, name=SUBJECT):
        return self.cell.works.get(name, self.cell.work)

    def rate(self, name):
        """The rate of a program's best time, in the cell's unit a second."""
        return self.work(name) / self.programs[name].best

    def share(self, name=SUBJECT):
        """A program's share of the machine's limit, measured in the same rounds; None where there is no such limit."""
        if self.cell.bound:
            return self.ratio(self.cell.bound, name) if self.ok(self.cell.bound) else None
        rounds = self.programs[name].rounds
        shares = [self.work(name) / rounds[n] / self.peaks[n] for n in rounds if self.peaks.get(n)]
        return statistics.median(shares) if shares else None

    def other(self, name):
        """Whether it computes something else."""
        error = self.programs[name].error
        return error is not None and error > SAME_RESULT

    def competitors(self):
        return [n for n in self.programs if n != SUBJECT and n not in self.cell.own and self.ok(n) and not self.other(n)]

    def best_peer(self):
        """The one whose ratio is the least; None without peers or without a result of our own."""
        return min(self.competitors(), key=self.ratio, default=None) if self.ok(SUBJECT) else None


def rest():
    """Until this process has stopped computing: threads of OpenMP and onnxruntime spin for some milliseconds after a call, and
    the next program would share its cores with them. Some kernels count the time of a process at ticks of 4 ms only, so one
    window without any says nothing yet."""
    quiet = 0
    for _ in range(50):
        used = time.process_time()
        time.sleep(QUIET)
        quiet = quiet + 1 if time.process_time() - used < QUIET / 10 else 0
        if quiet == 2:
            return


def call_for(seconds, call):
    """So long, once at least."""
    start = time.perf_counter()
    call()
    while time.perf_counter() - start < seconds:
        call()


def wake(attune):
    """All cores compute for a while. One that was idle while NumPy checked results may share a physical core with another of a
    virtual machine for a tenth of a second; measured: the program after the check took 1.5 times as long."""
    call_for(WAKING, lambda: attune.peak("fma"))


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def arrays(answer):
    """The results of a call as a tuple of arrays of 32 bits or more."""
    answer = answer() if callable(answer) else answer
    parts = answer if isinstance(answer, tuple) else (answer,)
    wide = lambda x: x if x.dtype.itemsize >= 4 else x.astype(np.float32)
    return tuple(x.float().numpy() if hasattr(x, "numpy") else wide(np.asarray(x)) for x in parts)


def largest(difference, allowed):
    worst = float(np.abs(difference).max(initial=0)) / allowed
    return float("inf") if np.isnan(worst) else worst


def check(cell, result, answers):
    """The rule of the tests: at most twice the error of the plain computation in the same type, and a floor for rounding."""
    if cell.reference is None:
        return
    exact, plain = (x if isinstance(x, tuple) else (x,) for x in (cell.reference(np.float64), cell.reference(np.float32)))
    allowed = [2 * np.abs(e - p).max() + (cell.epsilon + cell.documented_error) * np.abs(e).max() for e, p in zip(exact, plain)]
    sample, ours = cell.sample or (lambda x: x), None
    for name, answer in answers.items():
        program = result.programs[name]
        if name in cell.unchecked or answer is None:
            continue
        # Where a program answers less than the reference holds, what it answers is compared.
        got = tuple(g.reshape(e.shape) if cell.sample is None else g for e, g in zip(exact, arrays(answer)))
        program.error = max(largest(e - sample(g), a) for e, g, a in zip(exact, got, allowed))
        if name == SUBJECT:
            ours = tuple(g.copy() for g in got)  # the next call writes into the same memory
            if not program.error <= 1:
                program.failure = f"wrong result: {program.error:.3g} times the error that is allowed"
        elif ours is not None:
            program.apart = max(largest(g - o, a) for g, o, a in zip(got, ours, allowed))


def measure(cell, attune, rounds, seconds=0.03):
    """Programs that fail are kept with what they said; the others go on."""
    result = Result(cell, {name: Program() for name in cell.programs})
    calls, cost, answers = {}, {}, {}
    for name, call in cell.programs.items():
        try:
            call()
            if name == SUBJECT:
                result.variant = attune.last_variant()
            rest()
            start = time.perf_counter()
            answers[name] = call()
            once = time.perf_counter() - start
            cost[name] = min([once, *(timed(call) for _ in range(3 if once < seconds else 1 if once < LONG else 0))])
            calls[name] = max(1, min(200, round(seconds / max(1e-7, cost[name]))))
        except Exception as error:  # whatever a library raises: an operator that it does not have, no compiler...
            result.programs[name].failure = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
    check(cell, result, answers)
    del answers
    running = [name for name in calls if not result.programs[name].failure]
    peers = {name: cost[name] for name in running if name != SUBJECT and name not in cell.own}
    every = {name: max([1, *(n for times, n in SLOW.items() if c > times * min(peers.values()))]) for name, c in peers.items()}
    wake(attune)
    start, others = time.perf_counter(), attune.cpu_seconds_of_others()
    for n in range(rounds):
        if cell.unit == "FLOP" and cell.peak and not cell.bound:
            result.peaks[n] = attune.peak(cell.peak)
        for name in running[n % len(running) :] + running[: n % len(running)] if running else []:
            if n % every.get(name, 1):
                continue
            call, program = cell.programs[name], result.programs[name]
            rest()
            if cost[name] < LONG:
                call_for(WARM, call)
            times = [timed(call) for _ in range(calls[name])]
            program.rounds[n] = statistics.median(times)
            program.best = min(program.best, *times)
    result.others = (attune.cpu_seconds_of_others() - others) / (time.perf_counter() - start)
    cell.programs, cell.reference, cell.sample = {}, None, None  # and their arrays, up to a gigabyte
    return result
