/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file pmiwire.h
 * @brief PMI-1 and PMI-2 as engines without I/O: wire codec, client session, server engine and
 *        exchange between servers.
 *
 * PMI is the text protocol between a parallel program and its launcher: the program learns its rank
 * and size, puts its addresses, enters a barrier and gets the addresses of its peers. Two wires are
 * in use. PMI-1 is a line of `key=value` words; PMI-2 is six characters of decimal length and then
 * `key=value;` pairs. This library speaks both, in either role. You hand it the bytes you read and
 * take away the bytes to write: it owns no descriptor, thread, clock or file, so that it fits any
 * event loop, replays transcripts and can be fuzzed. It is not a launcher (see examples/pmirun),
 * not a PMI library with the classic `PMI_Init` functions (see examples/libpmi2), and not PMIx.
 *
 *     pmiwire_server_create(&opts, &server);                  // a server, with your callbacks
 *     pmiwire_server_job_add(server, &job, &id);              // a job of n ranks
 *     pmiwire_server_accept(server, id, rank, NULL, &conn);   // a client's connection
 *     while ((n = read(fd, buf, sizeof buf)) > 0) {
 *         pmiwire_conn_input(conn, buf, n);                   // it understands, and answers
 *         while ((n = pmiwire_conn_output(conn, &out)) > 0 && (n = write(fd, out, n)) > 0)
 *             pmiwire_conn_sent(conn, n);
 *     }
 *     pmiwire_conn_close(conn);
 *     pmiwire_server_destroy(server);
 *
 * examples/pmiwire.c is the whole program; client.h begins with the same for a client. Each header
 * is a chapter: it can be used alone, and builds on the ones before it:
 *
 *   - pmiwire/base.h     strings, errors, allocator
 *   - pmiwire/codec.h    messages: decode without copying, encode without allocating
 *   - pmiwire/command.h  every command of both wires and its fields; checking; typed access
 *   - pmiwire/profile.h  what each real peer can carry
 *   - pmiwire/extension.h fields that only this project's peers know, and how a server offers them
 *   - pmiwire/mapping.h  the PMI_process_mapping attribute
 *   - pmiwire/client.h   the client's side of a conversation
 *   - pmiwire/server.h   the server's side, for thousands of clients and several jobs
 *   - pmiwire/exchange.h between the servers of a job's nodes
 *
 * Passing NULL is undefined unless documented as allowed; functions that create an object return
 * -EINVAL for it.
 *
 * @threads MT-Safe on distinct objects: one server, session, decoder, encoder or exchange belongs
 * to one thread at a time. There is no global state.
 *
 * @source The wire as MPICH, Hydra, Slurm and Flux speak it, measured; the grammar of compatible
 * extra fields from "SHMEMPMI: Shared Memory based PMI for Improved Performance and Scalability"
 * (CCGrid 2016), section V, made exact by measurement; the exchange from "PMI Extensions for
 * Scalable MPI Startup" (EuroMPI/ASIA 2014). The sans-I/O shape and the limits are ours.
 */
#ifndef PMIWIRE_H
#define PMIWIRE_H

#include <pmiwire/base.h>
#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/profile.h>
#include <pmiwire/extension.h>
#include <pmiwire/mapping.h>
#include <pmiwire/client.h>
#include <pmiwire/server.h>
#include <pmiwire/exchange.h>

#endif /* PMIWIRE_H */
