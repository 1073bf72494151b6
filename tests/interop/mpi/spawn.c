/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_spawn of this program: with arguments and info, 1 and 3 children, from a part of the
 * job, twice in a row, and by a child. Parents and children merge and broadcast both ways. Status
 * 77 where MPI has no ports. */
#include "world.h"

/* PMI-1's `argN=VALUE\n` carries all but a newline. MPICH splits no argument; one of exactly
 * "endcmd" is harmless on the wire, yet Hydra 4.0.2 crashes. */
static char *sent[] = {(char[]){"child"},
                       (char[]){"two words"},
                       (char[]){"k=v"},
                       (char[]){"semi;colon"},
                       (char[]){"dou\"ble"},
                       (char[]){"sin'gle"},
                       (char[]){"back\\slash"},
                       (char[]){"*"},
                       (char[]){"$HOME `id`"},
                       (char[]){"two  blanks"},
                       (char[]){"cmd=x"},
                       (char[]){"last"},
                       NULL};

/* The children's side and the parents' of the same: merge, and a broadcast from the first and from
 * the last rank. */
static void talk(MPI_Comm inter, int high, int expected_size)
{
    MPI_Comm merged;
    int rank, size, value;

    MPI_Intercomm_merge(inter, high, &merged);
    MPI_Comm_rank(merged, &rank);
    MPI_Comm_size(merged, &size);
    CHECK_MSG(size == expected_size, "%d ranks after the merge, expected %d", size, expected_size);
    for (int root = 0; root<size; root += size> 1 ? size - 1 : 1) {
        value = rank == root ? 4711 + root : -1;
        MPI_Bcast(&value, 1, MPI_INT, root, merged);
        CHECK_MSG(value == 4711 + root, "broadcast from %d gave %d", root, value);
    }
    MPI_Comm_free(&merged);
}

static void spawn(char *mode, int count, MPI_Comm comm, MPI_Info info)
{
    MPI_Comm inter;
    int errcodes[8], n_local, n_remote;

    sent[0] = mode;
    for (int i = 0; i < count; i++)
        errcodes[i] = -7;
    MPI_Comm_spawn(own_path(), sent, count, info, 0, comm, &inter, errcodes);
    for (int i = 0; i < count; i++)
        CHECK_MSG(errcodes[i] == MPI_SUCCESS, "errcode %d of child %d", errcodes[i], i);
    MPI_Comm_size(comm, &n_local);
    MPI_Comm_remote_size(inter, &n_remote);
    CHECK_MSG(n_remote == count, "%d children, expected %d", n_remote, count);
    talk(inter, 0, n_local + count);
    MPI_Barrier(inter); /* after it the children's checks have passed too */
    MPI_Comm_disconnect(&inter);
}

static int child(int argc, char **argv, MPI_Comm parent)
{
    int n_parents, n_children;
    char folder[4096] = "";

    CHECK_MSG(argc == (int)(sizeof(sent) / sizeof(sent[0])), "child has argc %d", argc);
    for (int i = 1; i < argc - 1; i++)
        CHECK_MSG(!strcmp(argv[i + 1], sent[i]), "argument %d is [%s], not [%s]", i, argv[i + 1],
                  sent[i]);
    if (!strcmp(argv[1], "child-in-root"))
        CHECK_MSG(getcwd(folder, sizeof(folder)) && !strcmp(folder, "/"),
                  "info wdir=/, and the child is in %s", folder);
    CHECK_MSG(getenv("PMI_SPAWNED") == NULL || atoi(getenv("PMI_SPAWNED")) == 1, "PMI_SPAWNED=%s",
              getenv("PMI_SPAWNED"));
    MPI_Comm_remote_size(parent, &n_parents);
    MPI_Comm_size(MPI_COMM_WORLD, &n_children);
    talk(parent, 1, n_parents + n_children);
    if (!strcmp(argv[1], "spawns-again"))
        spawn((char[]){"child"}, 2, MPI_COMM_WORLD, MPI_INFO_NULL);
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    MPI_Comm parent, part;
    MPI_Info info;
    char why[MPI_MAX_ERROR_STRING];

    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(argc, argv, parent);
    if (!world_has_ports(why, sizeof(why)))
        return world_skip(&w, "spawn", why);

    spawn((char[]){"child"}, 1, MPI_COMM_WORLD, MPI_INFO_NULL);
    spawn((char[]){"child"}, 3, MPI_COMM_WORLD, MPI_INFO_NULL); /* twice in a row */
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/");
    MPI_Info_set(info, "interop_key", "a value; with=all");
    spawn((char[]){"child-in-root"}, 1, MPI_COMM_WORLD, info);
    MPI_Info_free(&info);
    spawn((char[]){"spawns-again"}, 1, MPI_COMM_WORLD, MPI_INFO_NULL);
    MPI_Comm_split(MPI_COMM_WORLD, w.rank % 2, -w.rank,
                   &part); /* both halves spawn at the same time */
    spawn((char[]){"child"}, 1, part, MPI_INFO_NULL);
    MPI_Comm_free(&part);
    return world_end(&w, "spawn");
}
