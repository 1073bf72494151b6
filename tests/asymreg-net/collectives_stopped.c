/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with a member that is stopped (SIGSTOP): timeout_ms ends the calls of the others,
 * wherever they wait for it: for its table at the first access, its flags, or a flush. After
 * SIGCONT the members have lost nothing.
 */
#define _GNU_SOURCE
#include "collectives.h"

enum { N = 3, VICTIM = 2, PUT_BYTES = 1 << 18 };

static int known; /* members have read each other's tables before */

/* A call on a group of this member and the victim, which comes when it is continued. */
static void fails(struct self *s)
{
    const struct asymreg_member pair[] = {s->scratches[s->me], s->scratches[VICTIM]};
    struct asymreg_group_opts opts = {.size = sizeof(opts),
                                      .n = 2,
                                      .scratch = s->scratch,
                                      .channel = 1 + s->me,
                                      .timeout_ms = 300,
                                      .members = pair};
    struct asymreg_error err;
    struct asymreg_group *g;

    CHECK_EQ(asymreg_group_create(s->w, &opts, &g, NULL), 0);
    CHECK_EQ(asymreg_sync(g, &err), ASYMREG_ETIMEDOUT);
    CHECK_EQ(err.member, 1);
    CHECK_EQ(err.pe, PE + VICTIM);
    asymreg_group_destroy(g);
}

/* A barrier of this member alone: what it puts to the victim doesn't arrive, where that takes part
 * in it; the group can be used again. */
static void flushes(struct self *s, const char *src)
{
    int one_sided = strncmp(transport, "ucx", 3) != 0;
    struct asymreg_error err = {.member = 0};
    struct asymreg_group *g;

    CHECK_EQ(asymreg_put_nb(s->w, PE + VICTIM, s->bufs[VICTIM].addr + s->me * PUT_BYTES,
                            ASYMREG_ANY, src, PUT_BYTES),
             0);
    CHECK_EQ(of_array(s, 1, 0, s->scratch, 3, 300, &g), 0);
    CHECK_EQ(asymreg_barrier(g, &err), one_sided ? 0 : ASYMREG_ETIMEDOUT);
    CHECK(one_sided || err.member == UINT32_MAX);
    CHECK_EQ(asymreg_sync(g, NULL), 0);
    asymreg_group_destroy(g);
}

static void member(uint32_t me)
{
    struct self self, *s = &self;
    char *src = malloc(PUT_BYTES), byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(100);
    CHECK(src != NULL);
    memset(src, 'a' + (int)me, PUT_BYTES);
    begin_member(s, me, N);
    CHECK_EQ(of_array(s, N, me, s->scratch, 0, 60000, &s->g), 0);
    if (known) {
        CHECK_EQ(asymreg_sync(s->g, NULL), 0);
        for (uint32_t i = 0; i < N; i++)
            CHECK_EQ(asymreg_get(s->w, PE + i, s->bufs[i].addr, ASYMREG_ANY, &byte, 1), 0);
        meet(s);
    }
    if (me == VICTIM) {
        raise(SIGSTOP);
        s->met++; /* the others did meanwhile */
        __atomic_store_n(&board->killed, 0, __ATOMIC_SEQ_CST);
    } else {
        while (!__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST))
            usleep(1000);
        fails(s);
        if (known)
            flushes(s, src);
        meet(s);
        while (__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST)) {
            CHECK(asymreg_progress(s->w) >= 0);
            usleep(1000);
        }
    }
    CHECK_EQ(asymreg_sync(s->g, NULL), 0);
    CHECK_EQ(asymreg_barrier(s->g, NULL), 0);
    for (uint32_t from = 0; from < N && me == VICTIM && known; from++)
        for (size_t i = 0; from != VICTIM && i < PUT_BYTES; i++)
            CHECK_EQ(s->buf[from * PUT_BYTES + i], 'a' + (int)from);
    free(src);
    end_member(s);
}

/* Whether a member has ended instead. */
static int wait_for_victim(pid_t victim)
{
    int status;

    return waitpid(victim, &status, WUNTRACED) != victim || !WIFSTOPPED(status);
}

static void stop_one(void)
{
    siginfo_t ended = {.si_pid = 0};
    uint32_t last = known ? 2 : 1; /* their meeting after all that waits for the victim */
    pid_t pids[N];
    int status;

    memset(board, 0, sizeof(*board));
    board->victim = VICTIM;
    fflush(stdout);
    for (uint32_t i = 0; i < N; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i] == 0)
            member(i);
    }
    CHECK(!wait_for_victim(pids[VICTIM]));
    __atomic_store_n(&board->killed, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&board->met[last], __ATOMIC_SEQ_CST) < N - 1 &&
           waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
        usleep(1000);
    CHECK_EQ(ended.si_pid, 0);
    CHECK(kill(pids[VICTIM], SIGCONT) == 0);
    for (uint32_t i = 0; i < N; i++)
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0);
    printf("%s: a member is stopped %s its table is known\n", transport,
           known ? "after" : "before");
}

void stopped_members(void)
{
    for (known = 0; known < 2; known++)
        stop_one();
}
