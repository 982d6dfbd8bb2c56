#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A worker of the tuner on a machine that is made up: every answer follows from the parameters and from the file
ATTUNE_FAKE_MACHINE.

The machine is JSON: "sleep" seconds of a process, "foreign_load", and "products", the share of all products that the machine
makes of a candidate whose time is a unit. The time of a candidate is block/64 + task_rows/64 units.
"""
import json
import os
import sys
import time

machine = json.load(open(os.environ["ATTUNE_FAKE_MACHINE"]))
job = json.load(sys.stdin)
time.sleep(machine.get("sleep", 0))
for candidate in job["candidates"]:
    if job["mode"] == "check":
        print(json.dumps({"id": candidate["id"], "right": True, "error_ratio": 0.5}))
        continue
    parameters = dict(word.split("=") for word in candidate["parameters"].split())
    units = int(parameters["block"]) / 64 + int(parameters["task_rows"]) / 64
    print(json.dumps({"id": candidate["id"], "seconds": [1e-3 * units] * job["rounds"]}))
    print(json.dumps({"id": candidate["id"], "products": machine.get("products", 0) / units}))
if job["mode"] == "time":
    print(json.dumps({"foreign_load": machine.get("foreign_load", 0)}))
