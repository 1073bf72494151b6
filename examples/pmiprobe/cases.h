/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions behind the table of cases; arg is the case's. */
#ifndef PROBE_CASES_H
#define PROBE_CASES_H

#include "probe.h"

/* case_session.c: versions, each client's first requests, pairs, splitting */
void case_init(struct play *p); /* arg: major * 10 + minor */
void case_init_unknown(struct play *p);
void case_maxes(struct play *p);
void case_number(struct play *p); /* arg: 0 appnum, 1 universe size */
void case_kvsname(struct play *p);
void case_init_2(struct play *p);
void case_fullinit(struct play *p);
void case_fullinit_bare(struct play *p);
void case_thrid(struct play *p);
void case_jobid(struct play *p);
void case_put_get(struct play *p);
void case_last_wins(struct play *p);
void case_own_put(struct play *p);
void case_late_put(struct play *p);
void case_miss(struct play *p);
void case_split(struct play *p);
void case_pipeline(struct play *p);
void case_extra(struct play *p);
void case_mapping(struct play *p);
void case_pad(struct play *p); /* arg: 0 left, 1 right */
void case_finalize_twice(struct play *p);

/* case_value.c: lengths and bytes of keys and values */
enum { AT_MAX, OVER_MAX, FAR_OVER };
void case_value_len(struct play *p); /* arg: AT_MAX … */
void case_key_len(struct play *p);
enum { B_SPACE, B_SEMICOLON, B_DOUBLED, B_BACKSLASH, B_EQUALS, B_8BIT, B_EMPTY, B_SLURM = 128 };
void case_value_bytes(struct play *p); /* arg: B_*, with B_SLURM as Slurm's client frames it */

/* case_bad.c: messages that are wrong in some way, and clients that stall */
enum {
    BAD_GET_NO_KEY,
    BAD_PUT_NO_VALUE,
    BAD_GET_NO_KVSNAME,
    BAD_DUPLICATE,
    BAD_NO_EQUALS,
    BAD_UNKNOWN,
    BAD_NUL,
    BAD_LONG,
    BAD_GARBAGE,
    BAD_LEN_NEGATIVE,
    BAD_LEN_ZERO,
    BAD_LEN_TEXT,
    BAD_LEN_HUGE,
    BAD_UNTERMINATED,
    BAD_SPAWN_COUNT,
    BAD_SPAWN_NO_EXEC,
    BAD_ABORTED_MCMD
};
void case_bad(struct play *p);   /* arg: BAD_* */
void case_stall(struct play *p); /* rank 0 stops in mid-message, rank 1 must finish its fence */
void case_stall_get(struct play *p);
void case_no_read(struct play *p);

/* case_more.c: names, attributes, ring, groups, spawn, the end */
void case_publish(struct play *p);
void case_lookup_unknown(struct play *p);
void case_group(struct play *p);
void case_ring(struct play *p);
void case_nodeattr(struct play *p);
void case_nodeattr_wait(struct play *p);
void case_nodeattr_miss(struct play *p);
void case_jobattr(struct play *p);
void case_jobattr_miss(struct play *p);
void case_spawn(struct play *p); /* arg: 0 /bin/true, 1 a program that does not exist */
void case_abort(struct play *p);
void case_leave(struct play *p);
enum { GONE_FINALIZED, GONE_CLOSED, GONE_CUT_OFF, GONE_ABSENT };
void case_gone(struct play *p); /* arg: GONE_* */
void case_job_connect(struct play *p);

#endif /* PROBE_CASES_H */
