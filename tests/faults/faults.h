/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Injected faults: one system call or one allocation of one process of a command fails, and the
 * sweep checks how the command ends.
 *
 * The command runs under ptrace (x86-64), so that raw system calls, statically linked programs and
 * children that share their parent's memory are reached too; a seccomp filter stops only the calls
 * in syscalls.c's table. The dynamic linker's calls do not fail. Processes are numbered as they
 * come: 0 is the command itself, under pmirun 1 is rank 0. Allocations fail in alloc.c, which is
 * preloaded.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* processes with a number of their own; later ones share the last number */
#define MAX_PROCS  32
#define MAX_CALLS  160 /* kinds of system call */
#define MAX_PATHS  512 /* files created in a run */
#define MAX_EVENTS 200000

/* How a call fails. */
enum how {
    HOW_ERRNO, /* is not made; returns the errno */
    HOW_AFTER, /* the call happens, then returns the errno, as a failing close() does */
    HOW_SHORT, /* moves a byte */
    HOW_ON,    /* like HOW_ERRNO, for all later calls of the kind too: an exhausted resource */
};

struct call {
    const char *name;
    int number;
    int len_arg; /* which argument is a length, HOW_SHORT; 0: none, -1: a struct msghdr is the
                    second */
    const char *failures; /* names of errnos; +: HOW_AFTER, *: HOW_ON too, ?: only on a descriptor
                             that does not wait */
};

extern const struct call calls[];
extern const size_t n_calls;
int errno_number(const char *name, size_t len);
const char *errno_name(int err);

/* One fault; n counts the calls of that kind of that process from 1. n = 0: none. */
struct fault {
    int proc, call, err;
    enum how how;
    uint32_t n;
};

/* A call that was made. */
struct event {
    uint8_t proc, call;
    bool waits; /* its descriptor is in blocking mode */
    uint32_t n;
};

struct run {
    int status; /* of the command, as wait() has it */
    bool hung;  /* killed at the time limit */
    bool hit;   /* the fault's call was reached */
    int n_left; /* processes that outlived the command by a grace period */
    int crash_proc, crash_signal;
    char crash_at[160], left_name[64], hit_at[256];
    char names[MAX_PROCS][32];
    struct event *events; /* MAX_EVENTS */
    size_t n_events;
    char *paths[MAX_PATHS]; /* created, absolute */
    size_t n_paths;
};

/* Runs it in `dir`, output to the two descriptors; with only_there, counts only calls on files
 * below `dir`. Returns 0, or -errno if it cannot trace. r->events is the caller's. */
int trace_run(char *const argv[], const char *dir, bool only_there, int out, int err,
              const struct fault *fault, double limit_s, struct run *r);
void run_release(struct run *r);
double now_s(void);

/* What alloc.c shares with the sweep: a file, mapped, named by FAULTS_ALLOC. */
struct alloc_plan {
    int32_t who; /* 1 + PMI_RANK, 17 + that of a spawned process; those without one: 0 the first
                    that began, 16 the second, 15 and so on */
    int32_t on;  /* all later ones too */
    uint64_t fail_at; /* 0: none */
    uint64_t hit;
    uint32_t n_others; /* have begun without PMI_RANK */
    uint64_t count[MAX_PROCS];
    char names[MAX_PROCS][32];
};

#endif
