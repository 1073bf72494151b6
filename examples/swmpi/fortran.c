/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Fortran names of the interposed functions, for all three bindings: mpif.h, `use mpi` and `use
 * mpi_f08`. MPICH's mpif.h calls the C functions; Open MPI's bindings, and mpi_f08 of both, call
 * PMPI. So each name is defined here, over the C functions of the other files.
 *
 * Arguments come by reference: handles as MPI_Fint, which a TYPE(MPI_Win) holds alone; addresses as
 * TYPE(C_PTR) or an integer of the same size. ierror may be absent from mpi_f08: NULL. Where a name
 * ends in _f08ts_ (MPICH) a buffer is an array descriptor, whose first member is the address.
 */
#include "swmpi.h"
#include <string.h>

/* A procedure with the linker names of mpif.h and `use mpi` in the manglings that MPIs provide, and
 * of mpi_f08. */
#define ALIAS(of, name)                                                                            \
    extern __typeof__(of) name __attribute__((alias(#of), visibility("default")))
#define PROCEDURE(name, NAME, ...)                                                                 \
    SWMPI_EXPORT void name##_(__VA_ARGS__);                                                        \
    ALIAS(name##_, name);                                                                          \
    ALIAS(name##_, name##__);                                                                      \
    ALIAS(name##_, NAME);                                                                          \
    ALIAS(name##_, name##_f08_);                                                                   \
    void name##_(__VA_ARGS__)
/* The same procedure with a TYPE(C_PTR), in `use mpi`. */
#define WITH_CPTR(name, NAME)                                                                      \
    ALIAS(name##_, name##_cptr);                                                                   \
    ALIAS(name##_, name##_cptr_);                                                                  \
    ALIAS(name##_, name##_cptr__);                                                                 \
    ALIAS(name##_, NAME##_CPTR)

/* Only the MPI's own Fortran library knows the attributes that Fortran has set. It is loaded when
 * Fortran calls. */
extern void pmpi_win_get_attr_(MPI_Fint *win, MPI_Fint *keyval, MPI_Aint *value, MPI_Fint *flag,
                               MPI_Fint *ierror) __attribute__((weak));

static int give_result(MPI_Fint *ierror, int rc)
{
    if (ierror)
        *ierror = rc;
    return rc == MPI_SUCCESS;
}

static void give_window(MPI_Fint *win, MPI_Win made, void *baseptr, void *base)
{
    *win = PMPI_Win_c2f(made);
    memcpy(baseptr, &base, sizeof(base));
}

PROCEDURE(mpi_win_allocate, MPI_WIN_ALLOCATE, MPI_Aint *size, MPI_Fint *disp_unit, MPI_Fint *info,
          MPI_Fint *comm, void *baseptr, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;
    void *base;

    if (give_result(ierror, MPI_Win_allocate(*size, *disp_unit, PMPI_Info_f2c(*info),
                                             PMPI_Comm_f2c(*comm), &base, &made)))
        give_window(win, made, baseptr, base);
}
WITH_CPTR(mpi_win_allocate, MPI_WIN_ALLOCATE);

PROCEDURE(mpi_win_allocate_shared, MPI_WIN_ALLOCATE_SHARED, MPI_Aint *size, MPI_Fint *disp_unit,
          MPI_Fint *info, MPI_Fint *comm, void *baseptr, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;
    void *base;

    if (give_result(ierror, MPI_Win_allocate_shared(*size, *disp_unit, PMPI_Info_f2c(*info),
                                                    PMPI_Comm_f2c(*comm), &base, &made)))
        give_window(win, made, baseptr, base);
}
WITH_CPTR(mpi_win_allocate_shared, MPI_WIN_ALLOCATE_SHARED);

PROCEDURE(mpi_win_shared_query, MPI_WIN_SHARED_QUERY, MPI_Fint *win, MPI_Fint *rank, MPI_Aint *size,
          MPI_Fint *disp_unit, void *baseptr, MPI_Fint *ierror)
{
    MPI_Aint bytes;
    void *base;
    int unit;

    if (!give_result(ierror, MPI_Win_shared_query(PMPI_Win_f2c(*win), *rank, &bytes, &unit, &base)))
        return;
    *size = bytes;
    *disp_unit = unit;
    memcpy(baseptr, &base, sizeof(base));
}
WITH_CPTR(mpi_win_shared_query, MPI_WIN_SHARED_QUERY);

PROCEDURE(mpi_alloc_mem, MPI_ALLOC_MEM, MPI_Aint *size, MPI_Fint *info, void *baseptr,
          MPI_Fint *ierror)
{
    void *base;

    if (give_result(ierror, MPI_Alloc_mem(*size, PMPI_Info_f2c(*info), &base)))
        memcpy(baseptr, &base, sizeof(base));
}
WITH_CPTR(mpi_alloc_mem, MPI_ALLOC_MEM);

PROCEDURE(mpi_free_mem, MPI_FREE_MEM, void *base, MPI_Fint *ierror)
{
    give_result(ierror, MPI_Free_mem(base));
}

PROCEDURE(mpi_win_create, MPI_WIN_CREATE, void *base, MPI_Aint *size, MPI_Fint *disp_unit,
          MPI_Fint *info, MPI_Fint *comm, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;

    if (give_result(ierror, MPI_Win_create(base, *size, *disp_unit, PMPI_Info_f2c(*info),
                                           PMPI_Comm_f2c(*comm), &made)))
        *win = PMPI_Win_c2f(made);
}

PROCEDURE(mpi_win_create_dynamic, MPI_WIN_CREATE_DYNAMIC, MPI_Fint *info, MPI_Fint *comm,
          MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;

    if (give_result(ierror,
                    MPI_Win_create_dynamic(PMPI_Info_f2c(*info), PMPI_Comm_f2c(*comm), &made)))
        *win = PMPI_Win_c2f(made);
}

PROCEDURE(mpi_win_attach, MPI_WIN_ATTACH, MPI_Fint *win, void *base, MPI_Aint *size,
          MPI_Fint *ierror)
{
    give_result(ierror, MPI_Win_attach(PMPI_Win_f2c(*win), base, *size));
}

PROCEDURE(mpi_win_detach, MPI_WIN_DETACH, MPI_Fint *win, void *base, MPI_Fint *ierror)
{
    give_result(ierror, MPI_Win_detach(PMPI_Win_f2c(*win), base));
}

PROCEDURE(mpi_win_sync, MPI_WIN_SYNC, MPI_Fint *win, MPI_Fint *ierror)
{
    give_result(ierror, MPI_Win_sync(PMPI_Win_f2c(*win)));
}

PROCEDURE(mpi_win_free, MPI_WIN_FREE, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win w = PMPI_Win_f2c(*win);

    give_result(ierror, MPI_Win_free(&w));
    *win = PMPI_Win_c2f(w);
}

PROCEDURE(mpi_win_get_info, MPI_WIN_GET_INFO, MPI_Fint *win, MPI_Fint *info_used, MPI_Fint *ierror)
{
    MPI_Info used;

    if (give_result(ierror, MPI_Win_get_info(PMPI_Win_f2c(*win), &used)))
        *info_used = PMPI_Info_c2f(used);
}

PROCEDURE(mpi_win_set_info, MPI_WIN_SET_INFO, MPI_Fint *win, MPI_Fint *info, MPI_Fint *ierror)
{
    give_result(ierror, MPI_Win_set_info(PMPI_Win_f2c(*win), PMPI_Info_f2c(*info)));
}

/* MPICH has other numbers for its attributes in Fortran. */
#if defined(MPICH_VERSION)
#define CREATE_FLAVOR (MPI_WIN_CREATE_FLAVOR + 1)
#else
#define CREATE_FLAVOR MPI_WIN_CREATE_FLAVOR
#endif

/* An attribute of MPI's own is its value in Fortran, not an address. */
PROCEDURE(mpi_win_get_attr, MPI_WIN_GET_ATTR, MPI_Fint *win, MPI_Fint *keyval, MPI_Aint *value,
          MPI_Fint *flag, MPI_Fint *ierror)
{
    struct swmpi_window *w = *keyval == CREATE_FLAVOR ? swmpi_window_of(PMPI_Win_f2c(*win)) : NULL;
    MPI_Fint rc = MPI_ERR_OTHER;

    if (pmpi_win_get_attr_)
        pmpi_win_get_attr_(win, keyval, value, flag, &rc);
    if (give_result(ierror, rc) && w && *flag)
        *value = w->flavor;
}

#if defined(MPICH_VERSION)
#define F08(name, ...)                                                                             \
    SWMPI_EXPORT void name(__VA_ARGS__);                                                           \
    void name(__VA_ARGS__)

F08(mpi_free_mem_f08ts_, void **base, MPI_Fint *ierror)
{
    mpi_free_mem_(*base, ierror);
}

F08(mpi_win_create_f08ts_, void **base, MPI_Aint *size, MPI_Fint *disp_unit, MPI_Fint *info,
    MPI_Fint *comm, MPI_Fint *win, MPI_Fint *ierror)
{
    mpi_win_create_(*base, size, disp_unit, info, comm, win, ierror);
}

F08(mpi_win_create_f08ts_large_, void **base, MPI_Aint *size, MPI_Aint *disp_unit, MPI_Fint *info,
    MPI_Fint *comm, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;

    if (give_result(ierror, MPI_Win_create_c(*base, *size, *disp_unit, PMPI_Info_f2c(*info),
                                             PMPI_Comm_f2c(*comm), &made)))
        *win = PMPI_Win_c2f(made);
}

F08(mpi_win_attach_f08ts_, MPI_Fint *win, void **base, MPI_Aint *size, MPI_Fint *ierror)
{
    mpi_win_attach_(win, *base, size, ierror);
}

F08(mpi_win_detach_f08ts_, MPI_Fint *win, void **base, MPI_Fint *ierror)
{
    mpi_win_detach_(win, *base, ierror);
}

/* The functions of MPI-4 with a displacement unit of MPI_ADDRESS_KIND. */
F08(mpi_win_allocate_f08_large_, MPI_Aint *size, MPI_Aint *disp_unit, MPI_Fint *info,
    MPI_Fint *comm, void *baseptr, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;
    void *base;

    if (give_result(ierror, MPI_Win_allocate_c(*size, *disp_unit, PMPI_Info_f2c(*info),
                                               PMPI_Comm_f2c(*comm), &base, &made)))
        give_window(win, made, baseptr, base);
}

F08(mpi_win_allocate_shared_f08_large_, MPI_Aint *size, MPI_Aint *disp_unit, MPI_Fint *info,
    MPI_Fint *comm, void *baseptr, MPI_Fint *win, MPI_Fint *ierror)
{
    MPI_Win made;
    void *base;

    if (give_result(ierror, MPI_Win_allocate_shared_c(*size, *disp_unit, PMPI_Info_f2c(*info),
                                                      PMPI_Comm_f2c(*comm), &base, &made)))
        give_window(win, made, baseptr, base);
}

F08(mpi_win_shared_query_f08_large_, MPI_Fint *win, MPI_Fint *rank, MPI_Aint *size,
    MPI_Aint *disp_unit, void *baseptr, MPI_Fint *ierror)
{
    void *base;

    if (give_result(ierror,
                    MPI_Win_shared_query_c(PMPI_Win_f2c(*win), *rank, size, disp_unit, &base)))
        memcpy(baseptr, &base, sizeof(base));
}

/* Their names since MPICH 4.2. */
#define ALSO(name, of) SWMPI_EXPORT extern __typeof__(of) name __attribute__((alias(#of)))
ALSO(mpi_win_allocate_c_f08_, mpi_win_allocate_f08_large_);
ALSO(mpi_win_allocate_shared_c_f08_, mpi_win_allocate_shared_f08_large_);
ALSO(mpi_win_shared_query_c_f08_, mpi_win_shared_query_f08_large_);
#endif
