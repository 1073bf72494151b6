/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of two clients in a whole session. */
#ifndef PMIWIRE_TESTS_SERVER_SCRIPTS_H
#define PMIWIRE_TESTS_SERVER_SCRIPTS_H

#include "server_harness.h"

/* Two clients' whole sessions, side by side: client 0 speaks PMI-1, client 1 PMI-2. */
static const char script0[] = INIT1
    "cmd=get_maxes\ncmd=put key=a value=0\ncmd=bogus\ncmd=put key=a\n" BARRIER
    "cmd=get key=b\nmcmd=spawn\nnprocs=1\nexecname=x "
    "y\ntotspawns=2\nspawnssofar=1\nargcnt=1\narg1=q\nendcmd\n"
    "mcmd=spawn\nnprocs=1\nexecname=z\ntotspawns=2\nspawnssofar=2\nendcmd\n"
    "cmd=publish_name service=s port=p\n" BARRIER "cmd=get key=c\ncmd=finalize\ncmd=get key=c\n";

static char script1[2000];

static void make_script1(void)
{
    static const char *const m[] = {
        "cmd=fullinit;pmirank=1;",
        "cmd=kvs-put;key=b;value=x;;y;",
        "cmd=kvs-put;key=c;value=1;thrid=2;",
        "cmd=kvs-fence;",
        "cmd=kvs-get;key=a;",
        "cmd=kvs-get;nokey;",
        "cmd=info-getjobattr;key=nix;",
        "cmd=info-putnodeattr;key=n;value=1;",
        "cmd=info-getnodeattr;key=n;wait=TRUE;",
        "cmd=kvs-fence;",
        "cmd=name-lookup;name=s;",
        "cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;argc=1;argv0=a;;b;",
        "cmd=finalize;",
    };
    size_t i;

    strcpy(script1, INIT2);
    for (i = 0; i < sizeof(m) / sizeof(m[0]); i++)
        strcat(script1, v2r(m[i]));
}

#endif
