# SPDX-License-Identifier: Apache-2.0
"""`vagrant ssh NAME -c COMMAND` and `vagrant provision --provision-with NAME`, for the emulated machines.

vagrant.py BOX '{"MACHINE": PORT, ...}' ARGUMENT ...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.setup.test_vagrantfile import machines as vagrantfile
from tests.vagrant.machines import Machine

box, ports, *words = sys.argv[1:]
described = vagrantfile()  # with this environment, as Vagrant reads it at each call
machines = {name: Machine(name, described[name], Path(box), port) for name, port in json.loads(ports).items()}
match words:
    case ["ssh", name, "-c", command]:
        ssh = machines[name].ssh(command)
        os.execvp(ssh[0], ssh)
    case ["provision", "--provision-with", script]:
        for machine in machines.values():
            machine.provision(script)
    case _:
        sys.exit(f"this stand-in for vagrant does not know: {' '.join(words)}")
