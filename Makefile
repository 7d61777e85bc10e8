# SPDX-License-Identifier: Apache-2.0
# `make lab` shows it, `make test` tests it; both first install what is missing.
# Each recipe is one program that dies with make, whatever kills make (setpriv), and takes its namespaces with it.
.PHONY: help setup lab test measure mutants race vm corners soak bench smoke check ryu agents packages packages-test install-test page-test vagrant-test peers licences results reference pictures clean
die_with_make = setpriv --pdeathsig KILL

help:
	@echo 'make lab     the paper'"'"'s lab with the controller on it: both transfer times, then the API, until Ctrl-C'
	@echo '             (LAB_ONCE=1 ends it after the comparison; LAB=home is a home whose terminals are carried to a relay)'
	@echo 'make test    form and types, and every test that is neither slow nor decided by time'
	@echo 'make measure the other tests, one by one: they want a machine that does nothing else'
	@echo 'make mutants one broken line after the other, and the tests that must fail: ten minutes'
	@echo 'make race    Go'"'"'s tests of what has goroutines, watched for data races: eight minutes'
	@echo 'make vm      what needs another kernel (Open vSwitch'"'"'s datapath, netem), tested on Debian'"'"'s in an emulated machine'
	@echo 'make corners the corners of paper 002 there: downloads over the kernel'"'"'s datapath and netem, four minutes'
	@echo 'make soak    one controller under tunnels, NATs and agents that come and go, for an hour (SOAK_S=7200: two)'
	@echo 'make bench   all that is promised in figures, measured: about an hour, results in results/bench'
	@echo 'make smoke   a few ratios of it, in a minute'
	@echo 'make check   linters, types and shell scripts alone'
	@echo 'make ryu     a Python environment with Ryu itself, in .venv-ryu'
	@echo 'make agents  the agent for phones and other machines, static, in build (amd64, arm64, armv7)'
	@echo 'make packages Debian packages of the controller and the agent, in build/packages'
	@echo 'make packages-test runs, upgrades and purges them under systemd in clean roots of Debian and Ubuntu'
	@echo 'make install-test types docs/how-to/install.md into two machines in QEMU, a home and a rented one, half an hour'
	@echo 'make page-test uses the page in a browser, against a laboratory with real traffic; screenshots in results/page'
	@echo 'make vagrant-test boots the machines of the Vagrantfile in QEMU and types docs/how-to/vagrant.md, half an hour'
	@echo 'make peers   the programs that `bicast experiment peers` compares with, in build/peers: five minutes'
	@echo 'make licences the licence of every dependency'
	@echo 'make results docs/results.md and its picture, from the rows in docs/results'
	@echo 'make reference docs/reference/cli.md and metrics.md, from the code'
	@echo 'make pictures the drawings in docs/pictures, from their sources (wants graphviz)'
	@echo 'make setup   packages and virtual environments, which the others do by themselves'
	@echo 'make clean   removes what these made here (not the packages) and ends runs that still live'

setup:
	@setup/setup.sh

check: setup
	@$(die_with_make) setup/check.sh
	@$(die_with_make) setup/check-go.sh

ryu: setup
	@setup/ryu.sh

lab: setup
	@$(die_with_make) ./bicast lab

bench: setup
	@$(die_with_make) ./bicast experiment bench

smoke: setup
	@$(die_with_make) .venv/bin/python -m experiments.bench --smoke

test: setup
	@$(die_with_make) setup/test.sh

measure: setup
	@$(die_with_make) setup/measure.sh

mutants: setup
	@$(die_with_make) setup/mutants.sh

race: setup
	@$(die_with_make) setup/race.sh

agents: setup
	@$(die_with_make) setup/agents.sh

results: setup
	@.venv/bin/python -m setup.results

reference: setup
	@.venv/bin/python -m setup.reference

pictures:
	@setup/pictures.sh

packages: setup
	@$(die_with_make) deploy/packages.sh

packages-test: setup
	@$(die_with_make) deploy/packages-test.sh

install-test: setup
	@$(die_with_make) setup/install-test.sh

page-test: setup
	@$(die_with_make) setup/page-test.sh

vagrant-test: setup
	@$(die_with_make) setup/vagrant-test.sh

peers: setup
	@$(die_with_make) setup/peers.sh

licences: setup
	@.venv/bin/python setup/licences.py

vm: setup
	@$(die_with_make) setup/vm.sh

corners: setup
	@$(die_with_make) setup/vm.sh .venv/bin/python -m experiments.transfer.kernel

soak: setup
	@BICAST_SOAK_S=$${SOAK_S:-3600} $(die_with_make) .venv/bin/python -m lab.stage.isolate .venv/bin/python -m pytest tests/soak

clean:
	@setup/clean.sh
