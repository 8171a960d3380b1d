/*
 * What the fake driver is told: a text file, named by FAKE_NVML_SCENARIO, looked at again at every
 * call. One statement a line, `verb word... key=value...`; a value with blanks stands in double
 * quotes; `#` begins a comment line. A line that is not understood ends the process: a test must
 * not pass because its scenario was misspelt.
 *
 *   driver version=550.54.15 nvml=12.550.54.15 cuda=12040
 *   init DRIVER_NOT_LOADED          what every form of nvmlInit answers. SUCCESS: also without cards
 *   enumerate live                  cards come and go at once; otherwise the list is made at nvmlInit,
 *                                   and a card that vanishes or is lost is so until the next one
 *   card uuid=GPU-... [key=value]   in the order of their indices; the keys are in scenario.c
 *   mig card=GPU-... uuid=MIG-...   a MIG device of a card that has mig=enabled
 *   process card=GPU-... pid=7 used=1048576 kind=compute    or mps, graphics; used=na: unknown
 *   fail nvmlDeviceGet* UNKNOWN [uuid]   functions (a shell pattern) that fail, for all cards or one
 *   delay nvmlDeviceGet* 500        functions (a shell pattern) that take so many ms, or until this goes
 *   event card=GPU-... xid=79       or type=0x2. Append only: each line new to a process happens once
 *
 * FAKE_NVML_LOG, if set, names a file to which each call adds its function's name.
 */
#ifndef FAKE_NVML_SCENARIO_H
#define FAKE_NVML_SCENARIO_H

#include <stdbool.h>

#include "nvml_types.h"

enum { CARDS = 64, PROCESSES = 256, FAILURES = 64, DELAYS = 16, EVENTS = 1024, TEXT = 96 };

typedef unsigned long long number;

enum mode { UNSUPPORTED, DISABLED, ENABLED };
enum kind { COMPUTE, GRAPHICS, MPS }; /* as `mode` of nvmlProcessDetailList_t */

struct card { /* or a MIG device: then `parent` is set */
    char uuid[TEXT], parent[TEXT], name[TEXT], serial[TEXT], pci[TEXT], capability[TEXT];
    number total, reserved, used; /* bytes */
    number minor, brand, compute_mode, persistence;
    number pci_device, pci_subsystem, domain, bus, slot;
    number temperature, power, power_limit, energy; /* C, mW, mW, mJ */
    number utilization, memory_utilization;         /* percent */
    number ecc, corrected, uncorrected, retired_sbe, retired_dbe, retired_pending;
    number remapped_correctable, remapped_uncorrectable, remap_pending, remap_failed;
    number recovery; /* an nvmlDeviceGpuRecoveryAction_t; na: the driver is too old to know */
    number mig, mig_pending, mig_max, gpu_instance, compute_instance;
    number events, state;
    int major, minor_version;
};

struct process {
    char card[TEXT];
    number pid, used, kind;
};

struct failure {
    char function[TEXT], uuid[TEXT];
    number code;
};

struct delay {
    char function[TEXT];
    number milliseconds;
};

struct event {
    char card[TEXT];
    number type, xid;
};

struct scenario {
    char version[TEXT], nvml[TEXT];
    number cuda;
    bool live, init_given;
    number init;
    struct card cards[CARDS], migs[CARDS];
    struct process processes[PROCESSES];
    struct failure failures[FAILURES];
    struct delay delays[DELAYS];
    struct event events[EVENTS];
    unsigned int n_cards, n_migs, n_processes, n_failures, n_delays, n_events;
};

/* Read the scenario if it changed. Returns whether it did. */
bool scenario_read(struct scenario *scenario);

/* The card or MIG device of a UUID, or NULL. */
const struct card *scenario_card(const struct scenario *scenario, const char *uuid);

#endif
