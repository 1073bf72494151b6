/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of cases: the function that plays it, the number of ranks, a conforming server's
 * reaction. */
#include <string.h>

#include "cases.h"

#define OK      BIT(V_OK)
#define NO      BIT(V_NO)
#define ERROR   BIT(V_ERROR)
#define REFUSED (BIT(V_ERROR) | BIT(V_CLOSED))
#define WITNESS CASE_WITNESS

#define ROW(w, n, function, argument, n_ranks, fl, acc, text)                                      \
    {                                                                                              \
        .name = n, .run = function, .expect = text, .accept = acc, .wire = w, .ranks = n_ranks,    \
        .flags = fl, .arg = argument                                                               \
    }
#define C1(n, function, argument, ranks, flags, accept, text)                                      \
    ROW(PMIWIRE_V1, "v1-" n, function, argument, ranks, flags, accept, text)
#define C2(n, function, argument, ranks, flags, accept, text)                                      \
    ROW(PMIWIRE_V2, "v2-" n, function, argument, ranks, flags, accept, text)
#define BOTH(n, function, argument, ranks, flags, accept, text)                                    \
    C1(n, function, argument, ranks, flags, accept, text),                                         \
        C2(n, function, argument, ranks, flags, accept, text)
#define BAD1(n, argument, accept, text) C1(n, case_bad, argument, 2, WITNESS, accept, text)
#define BAD2(n, argument, accept, text) C2(n, case_bad, argument, 2, WITNESS, accept, text)

/* Rank 0 is gone, and rank 1 in a fence. */
#define GONE_ROW(w, n, how, who)                                                                   \
    {                                                                                              \
        .name = n, .run = case_gone, .expect = who ": the fence fails, status other than 0",       \
        .accept = OK, .wire = w, .ranks = 2, .flags = CASE_ENDS, .arg = how, .status = -1          \
    }
#define GONE(n, how, who)                                                                          \
    GONE_ROW(PMIWIRE_V1, "v1-gone-" n, how, who), GONE_ROW(PMIWIRE_V2, "v2-gone-" n, how, who)

#define WHOLE  "whole, or refused"
#define REFUSE "error reply or closed connection; others unharmed"

static const struct probe_case cases[] = {
    C1("init-1.1", case_init, 11, 1, 0, OK, "rc=0, version 1, subversion 0 or 1"),
    C1("init-1.0", case_init, 10, 1, 0, OK, "rc=0, no higher subversion than asked"),
    C1("init-1.2", case_init, 12, 1, 0, OK, "rc=0, subversion 2 or lower"),
    C1("init-9.0", case_init_unknown, 0, 1, 0, REFUSED, "rc other than 0"),
    C2("init-2.0", case_init_2, 0, 1, 0, OK, "rc=0, version 2"),
    C2("fullinit", case_fullinit, 0, 1, 0, OK,
       "rank, size, appnum, pmi-version; truth is TRUE or FALSE"),
    C2("fullinit-bare", case_fullinit_bare, 0, 1, 0, OK,
       "served without pmijobid, as MPICH's clients ask"),
    C2("thrid", case_thrid, 0, 1, 0, OK, "echoed when sent, never else"),
    C2("job-getid", case_jobid, 0, 1, 0, OK, "a jobid"),
    C1("maxes", case_maxes, 0, 1, 0, OK, "three usable limits"),
    C1("appnum", case_number, 0, 1, 0, OK, "a number"),
    C1("universe-size", case_number, 1, 1, 0, OK, "a number"),
    C1("kvsname", case_kvsname, 0, 1, 0, OK, "a name shorter than kvsname_max"),
    BOTH("mapping", case_mapping, 0, 2, 0, OK | NO, "triples that MPICH 4.0 reads, or none"),

    BOTH("put-get", case_put_get, 0, 2, 0, OK, "each rank finds each pair"),
    BOTH("last-put-wins", case_last_wins, 0, 1, 0, OK, "the value put last"),
    BOTH("own-put", case_own_put, 0, 1, 0, OK | NO, "own pair before the fence: may be found"),
    BOTH("late-put", case_late_put, 0, 2, 0, OK, "a get behind the fence finds a slow rank's pair"),
    BOTH("get-miss", case_miss, 0, 1, 0, OK, "rc other than 0, or found=FALSE"),

    BOTH("value-max", case_value_len, AT_MAX, 1, 0, OK, "whole"),
    BOTH("value-over", case_value_len, OVER_MAX, 1, 0, OK | ERROR, WHOLE),
    BOTH("value-far-over", case_value_len, FAR_OVER, 1, 0, OK | ERROR, WHOLE),
    BOTH("key-max", case_key_len, AT_MAX, 1, 0, OK, "whole"),
    BOTH("key-over", case_key_len, OVER_MAX, 1, 0, OK | ERROR, WHOLE),
    BOTH("key-far-over", case_key_len, FAR_OVER, 1, 0, OK | ERROR, WHOLE),
    BOTH("value-space", case_value_bytes, B_SPACE, 1, 0, OK | ERROR, WHOLE),
    C1("value-semicolon", case_value_bytes, B_SEMICOLON, 1, 0, OK | ERROR, WHOLE),
    C2("value-semicolon", case_value_bytes, B_DOUBLED, 1, 0, OK | ERROR,
       "`;;` comes back as `;;`, or refused"),
    BOTH("value-backslash", case_value_bytes, B_BACKSLASH, 1, 0, OK | ERROR, WHOLE),
    BOTH("value-equals", case_value_bytes, B_EQUALS, 1, 0, OK, "whole"),
    BOTH("value-8bit", case_value_bytes, B_8BIT, 1, 0, OK | ERROR, WHOLE),
    BOTH("value-empty", case_value_bytes, B_EMPTY, 1, 0, OK | ERROR, WHOLE),

    C2("value-space-slurm", case_value_bytes, B_SLURM | B_SPACE, 1, 0, OK | ERROR,
       "whole for Slurm's client, or refused"),
    C2("value-semicolon-slurm", case_value_bytes, B_SLURM | B_DOUBLED, 1, 0, OK | ERROR,
       "`;;` for Slurm's client, or refused"),
    C2("value-backslash-slurm", case_value_bytes, B_SLURM | B_BACKSLASH, 1, 0, OK | ERROR,
       "whole for Slurm's client, or refused"),
    C2("value-8bit-slurm", case_value_bytes, B_SLURM | B_8BIT, 1, 0, OK | ERROR,
       "whole for Slurm's client, or refused"),

    BOTH("split", case_split, 0, 1, 0, OK, "a message written byte by byte is served"),
    BOTH("pipeline", case_pipeline, 0, 1, 0, OK,
         "four requests in one write, four replies in order"),
    BOTH("extra-fields", case_extra, 0, 1, 0, OK, "16 unknown fields in a request are skipped"),
    C2("pad-left", case_pad, 0, 1, 0, OK, "MPICH's length is read"),
    C2("pad-right", case_pad, 1, 1, 0, OK, "Slurm's length is read"),

    BAD1("get-no-key", BAD_GET_NO_KEY, REFUSED, REFUSE),
    BAD2("get-no-key", BAD_GET_NO_KEY, REFUSED, REFUSE),
    BAD1("put-no-value", BAD_PUT_NO_VALUE, REFUSED, REFUSE),
    BAD2("put-no-value", BAD_PUT_NO_VALUE, REFUSED, REFUSE),
    BAD1("get-no-kvsname", BAD_GET_NO_KVSNAME, BIT(V_TAKEN) | REFUSED,
         "served or refused; others unharmed"),
    BAD1("duplicate-field", BAD_DUPLICATE, REFUSED, REFUSE),
    BAD2("duplicate-field", BAD_DUPLICATE, REFUSED, REFUSE),
    BAD1("no-equals", BAD_NO_EQUALS, REFUSED, REFUSE),
    BAD2("no-equals", BAD_NO_EQUALS, REFUSED, REFUSE),
    BAD1("unknown-command", BAD_UNKNOWN, REFUSED, REFUSE),
    BAD2("unknown-command", BAD_UNKNOWN, REFUSED, REFUSE),
    BAD1("nul", BAD_NUL, REFUSED, REFUSE),
    BAD2("nul", BAD_NUL, REFUSED, REFUSE),
    BAD1("1-mb-line", BAD_LONG, REFUSED, REFUSE),
    BAD2("200-kb-message", BAD_LONG, REFUSED, REFUSE),
    BAD1("garbage", BAD_GARBAGE, REFUSED, REFUSE),
    BAD2("garbage", BAD_GARBAGE, REFUSED, REFUSE),
    BAD2("length-negative", BAD_LEN_NEGATIVE, REFUSED, REFUSE),
    BAD2("length-zero", BAD_LEN_ZERO, REFUSED, REFUSE),
    BAD2("length-text", BAD_LEN_TEXT, REFUSED, REFUSE),
    BAD2("length-999999", BAD_LEN_HUGE, REFUSED, REFUSE),
    BAD2("unterminated", BAD_UNTERMINATED, REFUSED, REFUSE),
    BOTH("stall-in-fence", case_stall, 0, 2, 0, OK,
         "half a message, silence: the other rank's fence ends"),
    BOTH("stall", case_stall_get, 0, 2, WITNESS, OK, "half a message, silence: others not delayed"),
    BOTH("not-reading", case_no_read, 0, 2, WITNESS, OK | BIT(V_CLOSED),
         "replies unread: others not delayed"),

    BOTH("publish", case_publish, 0, 1, 0, OK,
         "found with rc and port (PMI-2: and value), then gone"),
    BOTH("lookup-unknown", case_lookup_unknown, 0, 1, 0, OK, "rc other than 0"),
    C2("nodeattr", case_nodeattr, 0, 1, 0, OK, "found"),
    C2("nodeattr-wait", case_nodeattr_wait, 0, 2, 0, OK, "wait=TRUE is answered once it is put"),
    C2("nodeattr-miss", case_nodeattr_miss, 0, 1, 0, OK, "rc other than 0, or found=FALSE"),
    C2("jobattr-universe", case_jobattr, 0, 1, 0, OK | NO, "a number, or not found"),
    C2("jobattr-miss", case_jobattr_miss, 0, 1, 0, OK, "rc other than 0, or found=FALSE"),
    C2("job-connect", case_job_connect, 0, 1, 0, ERROR, "no such job: rc other than 0"),
    C1("group-barrier", case_group, 0, 2, 0, OK | NO,
       "PMI 1.2, when agreed on: ranks of the group alone"),
    C2("ring", case_ring, 0, 2, 0, OK | ERROR, "neighbours' values, or refused"),
    BOTH("spawn", case_spawn, 0, 1, 0, OK | ERROR, "starts /bin/true, or refused"),
    BOTH("spawn-no-program", case_spawn, 1, 1, 0, ERROR, "rc or errcodes other than 0"),
    BAD1("spawn-argcnt", BAD_SPAWN_COUNT, REFUSED, REFUSE),
    BAD2("spawn-argc", BAD_SPAWN_COUNT, REFUSED, REFUSE),
    BAD1("spawn-no-execname", BAD_SPAWN_NO_EXEC, REFUSED, REFUSE),
    BAD2("spawn-no-subcmd", BAD_SPAWN_NO_EXEC, REFUSED, REFUSE),
    BAD1("spawn-malformed", BAD_ABORTED_MCMD, REFUSED, REFUSE),

    BOTH("finalize-twice", case_finalize_twice, 0, 1, 0, OK | REFUSED, "any answer or the end"),
    {.name = "v1-abort",
     .run = case_abort,
     .expect = "the job ends with status 7",
     .accept = OK,
     .wire = PMIWIRE_V1,
     .ranks = 2,
     .flags = CASE_ENDS,
     .status = 7},
    {.name = "v2-abort",
     .run = case_abort,
     .expect = "the job ends, status other than 0",
     .accept = OK,
     .wire = PMIWIRE_V2,
     .ranks = 2,
     .flags = CASE_ENDS,
     .status = -1},
    {.name = "v1-leave",
     .run = case_leave,
     .expect = "rank 0 leaves without finalize: job ends, status other than 0",
     .accept = OK,
     .wire = PMIWIRE_V1,
     .ranks = 2,
     .flags = CASE_ENDS,
     .status = -1},
    {.name = "v2-leave",
     .run = case_leave,
     .expect = "rank 0 leaves without finalize: job ends, status other than 0",
     .accept = OK,
     .wire = PMIWIRE_V2,
     .ranks = 2,
     .flags = CASE_ENDS,
     .status = -1},
    GONE("finalized", GONE_FINALIZED, "rank 0 has finalized"),
    GONE("closed", GONE_CLOSED, "rank 0 has closed its connection and lives on"),
    GONE("cut-off", GONE_CUT_OFF, "rank 0 says what no limit allows and lives on"),
    GONE("absent", GONE_ABSENT, "rank 0 exits with 0 before init"),
};

const struct probe_case *case_at(int i)
{
    return i >= 0 && i < (int)(sizeof(cases) / sizeof(cases[0])) ? &cases[i] : NULL;
}

const struct probe_case *case_find(const char *name)
{
    for (int i = 0; case_at(i); i++)
        if (strcmp(case_at(i)->name, name) == 0)
            return case_at(i);
    return NULL;
}

bool case_conforms(const struct probe_case *pc, enum verdict v)
{
    return (pc->accept & BIT(v)) != 0;
}
