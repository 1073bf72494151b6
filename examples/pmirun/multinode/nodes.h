/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a head or an agent beyond that of a pmirun of one node. */
#ifndef PMIRUN_NODES_H
#define PMIRUN_NODES_H

#include "../local/pmirun.h"
#include "agent.h"
#include "head.h"
#include "message.h"
#include "names.h"
#include "net.h"

struct nodes {
    struct net net;
    struct head head;
    struct agent agent;
};

#endif
