# SPDX-License-Identifier: MIT
"""Ranks that are threads, with a communicator of Python's queues."""
import queue
import threading

import attune.context_parallel as cp


class Group:
    def __init__(self, size, time_limit=20.0):
        self.size, self.time_limit = size, time_limit
        self.queues = {(a, b): queue.SimpleQueue() for a in range(size) for b in range(size)}

    @staticmethod
    def wait(request, seconds):
        if request is None:
            return True
        messages, receive = request
        try:
            message = messages.get(timeout=max(seconds, 1e-3))
        except queue.Empty:
            return False
        receive[:] = message
        return True

    def communicator(self, rank, **functions):
        def start(send, to, receive, source):
            if to is not None:
                self.queues[rank, to].put(send.tobytes())
            return None if source is None else (self.queues[source, rank], receive)

        functions = {"start_send_receive": start, "wait": self.wait, "abandon": lambda request: True, **functions}
        return cp.Communicator(rank, self.size, time_limit=self.time_limit, **functions)


def on_ranks(size, call, time_limit=20.0, functions=lambda rank: {}):
    """call(communicator) on each rank: results or exceptions, by rank."""
    group, results = Group(size, time_limit), [None] * size

    def run(rank):
        try:
            results[rank] = call(group.communicator(rank, **functions(rank)))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    return results
