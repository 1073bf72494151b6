/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the interposer. Every MPI function that they define calls its PMPI_ twin
 * for objects that are not libswmpi's. */
#ifndef SWMPI_H
#define SWMPI_H

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <storwin.h>

#define SWMPI_EXPORT __attribute__((visibility("default")))

/* Where hints of the environment apply: the bits of SWMPI_APPLY. */
#define SWMPI_ALLOCATE  (1u << 0)
#define SWMPI_SHARED    (1u << 1)
#define SWMPI_ALLOC_MEM (1u << 2)

enum { SWMPI_SYNC_MEMORY, SWMPI_SYNC_STORAGE, SWMPI_SYNC_ALL };

/* An error for an error handler: an MPI error class, and a sentence. 0: none. */
struct swmpi_error {
    int code;
    char text[320];
};

/* Hints after the environment and the info have been read. */
struct swmpi_hints {
    struct storwin_opts opts;
    int sync;           /* what MPI_Win_sync reaches (swmpi_sync): SWMPI_SYNC_ */
    int one_file;       /* ranks one after the other in one file (swmpi_file=shared) */
    int commit;         /* swmpi_commit=all */
    int noncontig;      /* alloc_shared_noncontig */
    int discard;        /* storage_alloc_discard: done here, since MPI_Win_set_info may change it */
    uint64_t lead;      /* bytes from the start of its first page to the window's start */
    int name_inherited; /* the name is that of the environment */
    /* storage_alloc_filename before names are put in, "" if absent; and after: see
     * swmpi_hints_expand() */
    char name[STORWIN_MAX_PATH + 1];
    char path[STORWIN_MAX_PATH + 1];
};

/* Values of %r, %c and %w in file names. Ranks are those of MPI_COMM_WORLD, so that no two
 * processes of it have the same.
 */
struct swmpi_names {
    int rank;    /* the process */
    int leader;  /* rank 0 of the communicator */
    int number;  /* the window, on all its ranks the same */
    int foreign; /* the communicator has processes of another MPI_COMM_WORLD */
};

/* A file as it was before an allocation, to be put back when another rank's fails. */
struct swmpi_before {
    int existed;
    int64_t bytes; /* of a regular file; -1: nothing to put back */
};

/* One rank of a shared window, as MPI_Win_shared_query() gives it. */
struct swmpi_segment {
    MPI_Aint bytes;
    MPI_Aint disp_unit;
    int world_rank;
};

/* Memory of MPI_Alloc_mem that lies on storage. */
struct swmpi_memory {
    struct swmpi_memory *next;
    struct storwin_window *window;
    uintptr_t base; /* of the program's part of it */
    uint64_t bytes;
};

/* A part of such memory that is attached to a dynamic window. */
struct swmpi_region {
    struct swmpi_region *next;
    const void *base;
    struct storwin_window *window;
};

/* A window of libswmpi, kept as an attribute of the MPI window. */
struct swmpi_window {
    struct swmpi_window *next; /* of all, for MPI_Finalize, by falling number */
    MPI_Win win;
    int number;           /* on all ranks of the window the same */
    pthread_mutex_t lock; /* one sync at a time; the regions */
    /* NULL in a dynamic window, and in one over memory of MPI_Alloc_mem */
    struct storwin_window *storage;
    void *adopted;             /* the program's memory, if MPI allocated it; else NULL */
    int flavor;                /* the value of MPI_WIN_CREATE_FLAVOR */
    int sync, discard, unlink; /* as the hints say */
    char *unlink_path;         /* what MPI_Win_free removes, or NULL */
    uint64_t unlink_dev, unlink_ino;
    int created, on_file; /* what the allocation found, for its undoing */
    uint64_t lead;        /* bytes of `storage` before the program's */
    int n_segments;       /* of a shared window, else 0 */
    struct swmpi_segment *segments;
    int n_peers, *peers; /* swmpi_sync=all: descriptors of the other ranks' files */
    MPI_Comm group;      /* swmpi_commit=all: the window's ranks; else MPI_COMM_NULL */
    int decider, broken; /* the decider among them; a commit has failed */
    int votes;           /* whether this rank has a part on storage to commit */
    uint64_t newest;     /* number of the last commit begun by any of them */
    int native;          /* shared: the segments lie where MPI allocated them */
    /* a dynamic window's attached memory; for one over memory of MPI_Alloc_mem, that memory */
    struct storwin_dynamic *dynamic;
    struct swmpi_region *regions;
};

/* error.c */
int swmpi_class(int storwin_code); /* the MPI error class of a libstorwin code */
void swmpi_say(struct swmpi_error *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void swmpi_say_storwin(struct swmpi_error *e, const char *what, int code,
                       const struct storwin_error *cause);
int swmpi_raise_comm(MPI_Comm comm, const char *function,
                     const struct swmpi_error *e); /* through its handler */
int swmpi_raise_win(MPI_Win win, const char *function, const struct swmpi_error *e);
void swmpi_trace(int level, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* SWMPI_DEBUG */

/* hints.c */
int swmpi_hints_read(struct swmpi_hints *h, MPI_Info info, unsigned where, struct swmpi_error *e);
int swmpi_hints_expand(struct swmpi_hints *h, const struct swmpi_names *names,
                       struct swmpi_error *e);
int swmpi_hints_change(struct swmpi_window *w, MPI_Info info,
                       struct swmpi_error *e);                     /* MPI_Win_set_info */
int swmpi_hints_echo(const struct swmpi_window *w, MPI_Info info); /* MPI_Win_get_info */

/* window.c */
struct swmpi_window *swmpi_window_new(int flavor, struct swmpi_error *e);
void swmpi_window_delete(struct swmpi_window *w,
                         struct swmpi_error *e); /* and its storage, without a sync */
void swmpi_unlink_later(struct swmpi_window *w, const char *path,
                        struct swmpi_error *e); /* by MPI_Win_free */
/* Makes MPI_Finalize free what is left, in the delete function of an attribute of MPI_COMM_SELF.
 * These run last in, first out, and a program's may still use its windows: so from MPI_Init, or
 * where that was not interposed (Fortran's), from the first use. */
int swmpi_at_finalize(void);
int swmpi_window_bind(struct swmpi_window *w, MPI_Win win, int number);
struct swmpi_window *swmpi_window_of(MPI_Win win); /* NULL: none of ours */

/* agree.c; the first two are collective, one reduction each */
struct swmpi_agreed {
    int storage;  /* some rank wants storage */
    int one_file; /* some rank has swmpi_file=shared */
    int sync_all; /* some rank has swmpi_sync=all */
    int commit;   /* some rank has swmpi_commit=all */
    int mapped;   /* some rank's part cannot be MPI's memory */
    int number;   /* for the window, to be claimed */
};
int swmpi_agree(MPI_Comm comm, struct swmpi_agreed *agreed,
                struct swmpi_error *e); /* or NULL: errors alone */
int swmpi_claim(MPI_Comm comm, int *number,
                int *all); /* *all: no window of these ranks has it; else try the next */
int swmpi_names(MPI_Comm comm, struct swmpi_names *names); /* all but the number; not collective */
int swmpi_is_spawned(void); /* whether it had a parent when this was first called */
int swmpi_one_node(MPI_Comm comm, int *yes); /* whether all ranks can share memory; collective */
int swmpi_number_own(void);                  /* a number for what this process allocates alone */
void swmpi_before(struct swmpi_before *b, const struct storwin_opts *opts);
void swmpi_put_back(const struct swmpi_before *b, const char *path, int created);

/* allocate.c */
int swmpi_storage(struct swmpi_window *w, const struct storwin_opts *opts, uint64_t bytes,
                  struct storwin_error *cause); /* its storage; as storwin_alloc() */
int swmpi_win_create(void *base, MPI_Aint bytes, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                     MPI_Win *win);

/* peers.c; the first is collective, and closed by the last also when it has failed */
int swmpi_peers_open(struct swmpi_window *w, MPI_Comm comm, const struct swmpi_hints *h,
                     struct swmpi_error *e);
int swmpi_peers_sync(const struct swmpi_window *w, struct swmpi_error *e);
void swmpi_peers_close(struct swmpi_window *w);

/* commit.c; both are collective */
int swmpi_commit_open(struct swmpi_window *w, MPI_Comm comm, struct swmpi_hints *h,
                      struct swmpi_error *e);
int swmpi_commit_last(struct swmpi_window *w, int wanted,
                      struct swmpi_error *e); /* before the window goes, if all want it */
int swmpi_commit(MPI_Win win);                /* the program's */

/* memory.c */
void swmpi_memory_finish(void); /* frees the rest in MPI_Finalize */

#endif
