/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Publish_name, MPI_Lookup_name, MPI_Unpublish_name; and, where MPI has ports, accept and
 * connect between two halves of the job through a published one. */
#include "world.h"

static int class_of(int rc)
{
    int error_class;

    MPI_Error_class(rc, &error_class);
    return error_class;
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    char port[MPI_MAX_PORT_NAME] = "", why[MPI_MAX_ERROR_STRING], mine[64], theirs[64];
    const char *text = "tag#0$description#\"host\"$port#4711$";
    int rc, has_ports = world_has_ports(why, sizeof(why));

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    snprintf(mine, sizeof(mine), "interop.%d", w.rank);
    snprintf(theirs, sizeof(theirs), "interop.%d", (w.rank + 1) % w.size);
    rc = MPI_Lookup_name("interop.never", MPI_INFO_NULL, port);
    CHECK_MSG(class_of(rc) == MPI_ERR_NAME, "lookup of an unknown name: class %d", class_of(rc));
    rc = MPI_Publish_name(mine, MPI_INFO_NULL, text);
    CHECK_MSG(rc == MPI_SUCCESS, "publish");
    MPI_Barrier(MPI_COMM_WORLD);
    rc = MPI_Lookup_name(theirs, MPI_INFO_NULL, port);
    CHECK_MSG(rc == MPI_SUCCESS && !strcmp(port, text), "lookup gave [%s]", port);
    MPI_Barrier(MPI_COMM_WORLD);
#ifndef OPEN_MPI /* its own mpirun accepts the second too, and the last unpublish below */
    rc = MPI_Publish_name(mine, MPI_INFO_NULL, "another");
    CHECK_MSG(rc != MPI_SUCCESS, "a name published twice");
#endif
    rc = MPI_Unpublish_name(mine, MPI_INFO_NULL, text);
    CHECK_MSG(rc == MPI_SUCCESS, "unpublish");
    MPI_Barrier(MPI_COMM_WORLD);
    rc = MPI_Lookup_name(theirs, MPI_INFO_NULL, port);
    CHECK_MSG(class_of(rc) == MPI_ERR_NAME, "lookup after unpublish: class %d", class_of(rc));
    MPI_Barrier(MPI_COMM_WORLD); /* no rank publishes again before */
#ifndef OPEN_MPI
    rc = MPI_Unpublish_name(mine, MPI_INFO_NULL, text);
    CHECK_MSG(class_of(rc) == MPI_ERR_SERVICE, "unpublish of an unknown name: class %d",
              class_of(rc));
#endif
    rc = MPI_Publish_name(mine, MPI_INFO_NULL,
                          "anew"); /* an unpublished name can be published again */
    CHECK_MSG(rc == MPI_SUCCESS, "publish anew");
    rc = MPI_Lookup_name(mine, MPI_INFO_NULL, port);
    CHECK_MSG(rc == MPI_SUCCESS && !strcmp(port, "anew"), "lookup gave [%s]", port);
    rc = MPI_Unpublish_name(mine, MPI_INFO_NULL, "anew");
    CHECK_MSG(rc == MPI_SUCCESS, "unpublish of the new one");

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    if (has_ports && w.size > 1) {
        int upper = w.rank >= w.size / 2, size, value = -1;
        MPI_Comm half, inter, merged;

        MPI_Comm_split(MPI_COMM_WORLD, upper, w.rank, &half);
        if (w.rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Publish_name("interop.accept", MPI_INFO_NULL, port);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (upper) {
            MPI_Lookup_name("interop.accept", MPI_INFO_NULL, port);
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        } else {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        }
        MPI_Intercomm_merge(inter, upper, &merged);
        MPI_Comm_size(merged, &size);
        CHECK_MSG(size == w.size, "%d ranks after connect", size);
        if (w.rank == 0)
            value = 4711;
        MPI_Bcast(&value, 1, MPI_INT, 0, merged);
        CHECK_MSG(value == 4711, "broadcast gave %d", value);
        MPI_Comm_free(&merged);
        MPI_Comm_disconnect(&inter);
        MPI_Comm_free(&half);
        if (w.rank == 0) {
            MPI_Unpublish_name("interop.accept", MPI_INFO_NULL, port);
            MPI_Close_port(port);
        }
    } else if (w.rank == 0) {
        printf("names: accept and connect not tried: %s\n",
               has_ports ? "one rank has no halves" : why);
    }
    return world_end(&w, "names");
}
