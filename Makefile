# SPDX-License-Identifier: GPL-2.0
# The commands of usb4_rdma. `make help` lists them.
KDIR ?= /lib/modules/$(shell uname -r)/build
HOST ?= a
PROFILE ?= tb4
MODE ?= sparse
TOP := $(CURDIR)
lab = $(TOP)/scripts/lab
# kbuild reads Kbuild, so this file is only for people.
.DEFAULT_GOAL := help

help:
	@echo 'usb4_rdma: RDMA verbs over a Thunderbolt or USB4 cable'
	@echo
	@echo 'In the emulated lab (needs mmdebstrap, make, git; nothing else of the machine):'
	@echo '  make demo        boot two hosts, plug the cable, run perftest over usb4_rdma0'
	@echo '  make test        every test; ends in "N passed, N failed, N skipped"'
	@echo '  make sim         the protocol in virtual time against an adversary  [SEEDS=n] [FIRST=n] | SEED=n'
	@echo '  make exam        suites that judge RDMA devices; ARGS="--group perftest" for some of them'
	@echo '  make sim-mutants  plants bugs in a copy of the protocol; the simulation must find each'
	@echo '  make fuzz        coverage-guided fuzzing of parser, HELLO and queue pair  [MINUTES=n]'
	@echo '  make test-debug  the driver on a kernel with KASAN and lockdep (built once, half an hour)'
	@echo '  make bench       TCP, soft-RoCE and usb4_rdma side by side; writes report/'
	@echo '  make lab-up      boot the lab for daily work  [PROFILE=amd|tb4|tb5] [MODE=sparse|sync]'
	@echo "  make lab-run     HOST=a CMD='...'             run a command in a host"
	@echo '  make lab-shell   HOST=a                       commands in a host, one after the other'
	@echo '  make cable       CMD=plug|unplug|counters     what a hand does, or a JSON request'
	@echo '  make lab-down    end the lab'
	@echo '  make prepare     only fetch and build what the lab needs'
	@echo
	@echo 'On a real machine:'
	@echo '  make modules     [KDIR=/lib/modules/.../build]  the kernel module'
	@echo '  make provider    the libibverbs provider'
	@echo '  make install     both, into the running system (or DESTDIR)'
	@echo '  make clean       remove what modules and provider built'

demo:
	@$(lab) demo
test:
	@$(lab) tests $(ARGS)
exam:
	@$(lab) exam $(ARGS)
# The same guests on a kernel with KASAN, lockdep and kmemleak (Documentation/lab.md).
test-debug:
	@U4R_DEBUG=1 $(lab) debug $(ARGS)
bench:
	@$(lab) bench $(ARGS)
sim:
	@$(TOP)/scripts/sim
fuzz:
	@$(TOP)/scripts/fuzz
sim-mutants:
	@$(TOP)/scripts/sim mutants
prepare:
	@$(lab) build
lab-up:
	@$(lab) cli up --profile '$(PROFILE)' --mode $(MODE)
lab-run:
	@$(lab) cli run $(HOST) "$$U4R_CMD"
lab-shell:
	@$(lab) cli shell $(HOST)
cable:
	@$(lab) cli cable "$$U4R_CMD"
lab-down:
	@$(lab) cli down
# Through the environment, so that quotes in CMD survive.
export U4R_CMD := $(CMD)
export SEEDS FIRST SEED TRACE JOBS MINUTES TARGETS

modules:
	$(MAKE) -C $(KDIR) M=$(TOP) modules
provider:
	$(MAKE) -C provider
install: modules provider
	$(MAKE) -C $(KDIR) M=$(TOP) INSTALL_MOD_PATH=$(DESTDIR) modules_install
	$(MAKE) -C provider install DESTDIR=$(DESTDIR)
clean:
	-$(MAKE) -C $(KDIR) M=$(TOP) clean
	-$(MAKE) -C provider clean

.PHONY: help demo test test-debug sim sim-mutants fuzz exam bench prepare lab-up lab-run lab-shell cable lab-down \
	modules provider install clean
