/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file pmiwire.h
 * @brief PMI-1 and PMI-2 as engines without I/O: wire codec, client session, server engine and
 *        exchange between servers.
 *
 * PMI is the text protocol between a parallel program and its launcher. With PMI a process learns
 * its rank and the job's size, puts its addresses, enters a barrier and gets the addresses of its
 * peers. Two wires are in use. A PMI-1 message is a line of `key=value` words. A PMI-2 message is a
 * decimal length of six characters, then `key=value;` pairs.
 *
 * This library speaks both wires, as client and as server. You hand it the bytes that you read, and
 * write the bytes that it returns. It owns no descriptor, thread, clock or file. So it fits any
 * event loop, can replay transcripts and can be fuzzed. It is not a launcher (see examples/pmirun),
 * not a PMI library with the classic `PMI_Init` functions (see examples/libpmi2), and not PMIx.
 *
 *     pmiwire_server_create(&opts, &server);                  // a server, with your callbacks
 *     pmiwire_server_job_add(server, &job, &id);              // a job of n ranks
 *     pmiwire_server_accept(server, id, rank, NULL, &conn);   // a client's connection
 *     while ((n = read(fd, buf, sizeof buf)) > 0) {
 *         pmiwire_conn_input(conn, buf, n);                   // decodes them, and answers
 *         while ((n = pmiwire_conn_output(conn, &out)) > 0 && (n = write(fd, out, n)) > 0)
 *             pmiwire_conn_sent(conn, n);
 *     }
 *     pmiwire_conn_close(conn);
 *     pmiwire_server_destroy(server);
 *
 * examples/pmiwire.c is this program in full. client.h begins with such an outline of a client.
 * Each header can be included alone:
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
 * Passing NULL is undefined unless documented as allowed. Functions that create an object return
 * -EINVAL for a NULL.
 *
 * @threads MT-Safe on distinct objects: one server, session, decoder, encoder or exchange belongs
 * to one thread at a time. There is no global state.
 *
 * @source The wire: MPICH, Hydra, Slurm and Flux, as measured. The compatible extra fields:
 *         "SHMEMPMI: Shared Memory based PMI for Improved Performance and Scalability" (CCGrid
 *         2016), section VI-A; their exact grammar was measured. The exchange: "PMI Extensions for
 *         Scalable MPI Startup" (EuroMPI/ASIA 2014). The engines without I/O and the limits are
 *         ours.
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
