/* SPDX-License-Identifier: BSD-3-Clause */
/* The line at the bottom of the terminal. */
#define _GNU_SOURCE
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "job.h"
#include "loop.h"
#include "output.h"

#define QUIET_NS (NS_PER_S / 4)  /* without output before it is drawn again */
#define EVERY_NS (NS_PER_S / 10) /* between two drawings */
#define CLEAR    "\r\033[K"
#define BAR_MAX  40

static bool stands; /* in the terminal; not in struct progress, since die() asks */

void progress_init(struct progress *p)
{
    const char *term = getenv("TERM");

    p->on = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
    p->with_stdout = isatty(STDOUT_FILENO);
}

/* ---- between output ---- */

static bool sink_is_terminal(const struct progress *p, const struct sink *sk)
{
    return p->on && (sk == &p->output->err || (sk == &p->output->out && p->with_stdout));
}

bool progress_hide(struct progress *p, const struct sink *sk)
{
    if (!stands || p->output->err.dead || !sink_is_terminal(p, sk))
        return true;
    stands = !output_raw(p->output, CLEAR, strlen(CLEAR));
    return !stands;
}

void progress_clear(void)
{
    if (stands && write(STDERR_FILENO, CLEAR, strlen(CLEAR)) >= 0)
        stands = false;
}

/* ---- the line ---- */

static size_t terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* A bar for all ranks: # finalized, = initialized, - started. */
static void put_bar(char *to, size_t width, const uint64_t *n, uint64_t all)
{
    static const char signs[PROGRESS_STEPS] = {'-', '=', '#'};

    memset(to, ' ', width);
    for (int i = 0; i < PROGRESS_STEPS; i++)
        memset(to, signs[i], (size_t)((n[i] < all ? n[i] : all) * width / all));
    to[width] = '\0';
}

static size_t compose_line(const struct progress *p, char *line, size_t cap)
{
    const uint64_t *n = p->n, all = p->output->jobs->n_ranks ? p->output->jobs->n_ranks : 1;
    const size_t most = terminal_columns() - 1; /* a full line would wrap */
    char counts[128], bar[BAR_MAX + 1];
    size_t len = (size_t)snprintf(
        counts, sizeof(counts), "%llu started, %llu initialized, %llu finalized of %llu",
        (unsigned long long)n[PROGRESS_STARTED], (unsigned long long)n[PROGRESS_INITED],
        (unsigned long long)n[PROGRESS_FINALIZED], (unsigned long long)p->output->jobs->n_ranks);
    size_t room = most > len + 3 ? most - len - 3 : 0;

    if (room >= 8) {
        put_bar(bar, room < BAR_MAX ? room : BAR_MAX, n, all);
        len = (size_t)snprintf(line, cap, "[%s] %s", bar, counts);
    } else {
        len = (size_t)snprintf(line, cap, "%.*s", (int)most, counts);
    }
    return len;
}

/* Another job of the shell has the terminal. */
static bool in_background(void)
{
    const pid_t group = tcgetpgrp(STDERR_FILENO);

    return group > 0 && group != getpgrp();
}

static void progress_draw(void *of)
{
    struct progress *p = of;
    char line[512] = CLEAR;
    size_t n = strlen(CLEAR);

    if (!p->on || p->mid_line)
        return;
    if (output_pending(p->output) || in_background()) {
        timer_call(&p->draw, loop.now_ns + QUIET_NS, progress_draw, p);
        return;
    }
    n += compose_line(p, line + n, sizeof(line) - n);
    stands = output_raw(p->output, line, n) || stands;
}

void progress_wrote(struct progress *p, const struct sink *sk, const char *text, size_t n)
{
    if (n == 0 || !sink_is_terminal(p, sk))
        return;
    p->mid_line = text[n - 1] != '\n';
    timer_call(&p->draw, loop.now_ns + QUIET_NS, progress_draw, p);
}

void progress_count(struct progress *p, enum progress_step step)
{
    p->n[step]++;
    if (p->on && !p->draw.waits)
        timer_call(&p->draw, loop.now_ns + EVERY_NS, progress_draw, p);
}
