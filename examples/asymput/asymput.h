/* SPDX-License-Identifier: BSD-3-Clause */
/* asymput: what its files share.
 *
 *   main.c    options, the two processes, what is printed and drawn
 *   server.c  registers memory and is otherwise passive
 *   client.c  measures
 */
#ifndef ASYMPUT_H
#define ASYMPUT_H

#include <asymreg.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_POINTS 32
#define MAX_TRIALS 32

struct options {
    const char *transport; /* shm, cma, ucx, ibv */
    const char *device;    /* of ibv, or NULL */
    uint64_t regions[MAX_POINTS];
    uint32_t n_points;
    uint64_t block; /* bytes of an operation, and of a region */
    uint64_t ops;   /* a trial */
    uint32_t trials;
    uint32_t puts; /* of 100 operations */
    uint64_t seed;
    bool check;       /* read back what was put */
    bool stats;       /* print what was read of the server's table */
    const char *plot; /* an SVG file, or NULL */
    const char *listen, *connect, *port;
};

/* The server's first message: who it is. */
struct hello {
    uint64_t blob_bytes;
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

/* The client asks for memory with `n` regions of `block` bytes; n 0 ends the server. */
struct request {
    uint64_t n, block;
};

/* The same memory twice: at `one` as a single region, at `many` as n of them. */
struct reply {
    int64_t error;
    uint64_t one, many;
    double register_ns; /* for each of the many, published */
};

/* Ends the program with what went wrong. */
_Noreturn void fail(const char *what, int code);
void send_all(int sock, const void *buf, size_t bytes);
/* False at the end of the stream. */
bool receive_all(int sock, void *buf, size_t bytes);
uint64_t now_ns(void);
/* A context over the transport chosen. */
struct asymreg_context *open_context(const struct options *o);

void run_server(const struct options *o, int sock);
void run_client(const struct options *o, int sock);

#endif
