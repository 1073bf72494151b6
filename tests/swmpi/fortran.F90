! SPDX-License-Identifier: BSD-3-Clause
! fortran DIR: windows on storage from Fortran, by one of the bindings: BINDING is 77 for mpif.h, 90 for `use mpi`, 8 for
! `use mpi_f08`, and with LARGE its procedures of MPI-4 with large counts. What was put and stored must be in the files of DIR, also that of a window which is still open at
! MPI_Finalize, and the windows must say what they are. Under libswmpi.so only.
#if BINDING == 8
#define COMM_TYPE type(MPI_Comm)
#define INFO_TYPE type(MPI_Info)
#define WIN_TYPE type(MPI_Win)
#else
#define COMM_TYPE integer
#define INFO_TYPE integer
#define WIN_TYPE integer
#endif
#ifdef LARGE
#define UNIT_TYPE integer(MPI_ADDRESS_KIND)
#else
#define UNIT_TYPE integer
#endif
program fortran
    use, intrinsic :: iso_c_binding
#if BINDING == 8
    use mpi_f08
#elif BINDING == 90
    use mpi
#endif
    implicit none
#if BINDING == 77
    include 'mpif.h'
#endif
    integer, parameter :: n = 5000
    integer(MPI_ADDRESS_KIND), parameter :: bytes = 4 * n
    UNIT_TYPE, parameter :: unit = 4
    character(len=:), allocatable :: dir
    integer :: rank, ranks, ierr, length
    INFO_TYPE :: info
    WIN_TYPE :: left
    integer, pointer :: words(:)

    call get_command_argument(1, length=length)
    allocate (character(len=length) :: dir)
    call get_command_argument(1, dir)
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
    call allocated()
    call shared()
    call dynamic()
    info = storage('open')
    call make(left, .false., info, words)
    call MPI_Info_free(info, ierr)
    words(n) = 12345 + rank
    if (rank == 0) print '(a)', 'fortran ok'
    call MPI_Finalize(ierr)
    if (word_of(name('open', rank), n) /= 12345 + rank) stop 1
contains
    subroutine check(holds, what)
        logical, intent(in) :: holds
        character(len=*), intent(in) :: what

        if (holds) return
        print '(a, i0, 2a)', 'rank ', rank, ': ', what
        call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end subroutine

    function name(prefix, of)
        character(len=*), intent(in) :: prefix
        integer, intent(in) :: of
        character(len=:), allocatable :: name
        character(len=8) :: digits

        write (digits, '(i0)') of
        name = dir//'/'//prefix//'.'//trim(digits)
    end function

    ! Hints for a window in the file DIR/prefix.RANK.
    function storage(prefix) result(info)
        character(len=*), intent(in) :: prefix
        INFO_TYPE :: info

        call MPI_Info_create(info, ierr)
        call MPI_Info_set(info, 'alloc_type', 'storage', ierr)
        call MPI_Info_set(info, 'storage_alloc_filename', dir//'/'//prefix//'.%r', ierr)
    end function

    ! The i-th word of a file.
    function word_of(file, i) result(word)
        character(len=*), intent(in) :: file
        integer, intent(in) :: i
        integer :: word, at, status

        word = -1
        open (newunit=at, file=file, access='stream', form='unformatted', status='old', iostat=status)
        if (status /= 0) return
        read (at, pos=4 * i - 3, iostat=status) word
        close (at)
    end function

    ! A window of n words, of MPI_Win_allocate or MPI_Win_allocate_shared.
    subroutine make(win, is_shared, info, words)
        WIN_TYPE, intent(out) :: win
        logical, intent(in) :: is_shared
        INFO_TYPE, intent(in) :: info
        integer, pointer, intent(out) :: words(:)
        type(c_ptr) :: base
#if BINDING == 77
        integer(MPI_ADDRESS_KIND) :: address

        if (is_shared) then
            call MPI_Win_allocate_shared(bytes, 4, info, MPI_COMM_WORLD, address, win, ierr)
        else
            call MPI_Win_allocate(bytes, 4, info, MPI_COMM_WORLD, address, win, ierr)
        end if
        base = transfer(address, base)
#else

        if (is_shared) then
            call MPI_Win_allocate_shared(bytes, unit, info, MPI_COMM_WORLD, base, win, ierr)
        else
            call MPI_Win_allocate(bytes, unit, info, MPI_COMM_WORLD, base, win, ierr)
        end if
#endif
        call check(ierr == MPI_SUCCESS, 'no window')
        call c_f_pointer(base, words, [n])
    end subroutine

    subroutine has_flavor(win, wanted)
        WIN_TYPE, intent(in) :: win
        integer, intent(in) :: wanted
        integer(MPI_ADDRESS_KIND) :: value
        logical :: found

        call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, found, ierr)
        call check(found .and. value == wanted, 'the flavor')
        call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, found, ierr)
        call check(found .and. value == 4, 'the displacement unit')
    end subroutine

    subroutine has_hint(win, key, wanted)
        WIN_TYPE, intent(in) :: win
        character(len=*), intent(in) :: key, wanted
        character(len=256) :: value
        INFO_TYPE :: used
        logical :: found

        call MPI_Win_get_info(win, used, ierr)
        call MPI_Info_get(used, key, len(value), value, found, ierr)
        call check(found, 'no hint '//key)
        call check(value == wanted, 'the hint '//key)
        call MPI_Info_free(used, ierr)
    end subroutine

    subroutine allocated()
        INFO_TYPE :: info, change
        WIN_TYPE :: win
        integer :: next, before, word

        next = mod(rank + 1, ranks)
        before = mod(rank + ranks - 1, ranks)
        info = storage('own')
        call make(win, .false., info, words)
        call MPI_Info_free(info, ierr)
        call has_flavor(win, MPI_WIN_FLAVOR_ALLOCATE)
        call has_hint(win, 'alloc_type', 'storage')
        call MPI_Info_create(change, ierr)
        call MPI_Info_set(change, 'swmpi_sync', 'memory', ierr)
        call MPI_Win_set_info(win, change, ierr)
        call has_hint(win, 'swmpi_sync', 'memory')
        call MPI_Info_set(change, 'swmpi_sync', 'storage', ierr)
        call MPI_Win_set_info(win, change, ierr)
        call MPI_Info_free(change, ierr)
        word = 1000 + rank
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win, ierr)
        call MPI_Put(word, 1, MPI_INTEGER, next, 9_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, ierr)
        call MPI_Win_unlock(next, win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win, ierr)
        call check(words(10) == 1000 + before, 'what was put')
        call MPI_Win_sync(win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_sync')
        call MPI_Win_unlock(rank, win, ierr)
        call check(word_of(name('own', rank), 10) == 1000 + before, 'what was put is not in the file')
        words(n) = 77
        call MPI_Win_free(win, ierr)
        call check(ierr == MPI_SUCCESS .and. win == MPI_WIN_NULL, 'MPI_Win_free')
        call check(word_of(name('own', rank), n) == 77, 'what was stored is not in the file')
    end subroutine

    subroutine shared()
        integer, pointer :: first(:)
        integer(MPI_ADDRESS_KIND) :: size
        INFO_TYPE :: info
        WIN_TYPE :: win
        type(c_ptr) :: base
        UNIT_TYPE :: its_unit
#if BINDING == 77
        integer(MPI_ADDRESS_KIND) :: address
#endif

        info = storage('shared')
        call MPI_Info_set(info, 'alloc_shared_noncontig', 'true', ierr)
        call make(win, .true., info, words)
        call MPI_Info_free(info, ierr)
        call has_flavor(win, MPI_WIN_FLAVOR_SHARED)
#if BINDING == 77
        call MPI_Win_shared_query(win, 0, size, its_unit, address, ierr)
        base = transfer(address, base)
#else
        call MPI_Win_shared_query(win, 0, size, its_unit, base, ierr)
#endif
        call check(size == bytes .and. its_unit == unit, 'MPI_Win_shared_query')
        call c_f_pointer(base, first, [n])
        call MPI_Win_lock_all(0, win, ierr)
        first(rank + 1) = 500 + rank
        call MPI_Win_sync(win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
        call MPI_Win_unlock_all(win, ierr)
        call check(word_of(name('shared', 0), ranks) == 500 + ranks - 1, 'what was stored into rank 0''s segment')
        call MPI_Win_free(win, ierr)
    end subroutine

    subroutine dynamic()
        INFO_TYPE :: info
        WIN_TYPE :: win
        type(c_ptr) :: base
#if BINDING == 77
        integer(MPI_ADDRESS_KIND) :: address
#endif

        info = storage('memory')
#if BINDING == 77
        call MPI_Alloc_mem(bytes, info, address, ierr)
        base = transfer(address, base)
#else
        call MPI_Alloc_mem(bytes, info, base, ierr)
#endif
        call MPI_Info_free(info, ierr)
        call c_f_pointer(base, words, [n])
        call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
        call has_flavor_dynamic(win)
        call MPI_Win_attach(win, words, bytes, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_attach')
        words(3) = 33
        call MPI_Win_lock_all(0, win, ierr)
        call MPI_Win_sync(win, ierr)
        call MPI_Win_unlock_all(win, ierr)
        call check(word_of(name('memory', rank), 3) == 33, 'what was stored is not in the file')
        call MPI_Win_detach(win, words, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_detach')
        call MPI_Win_free(win, ierr)
        words(4) = 44
        call MPI_Free_mem(words, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Free_mem')
        call check(word_of(name('memory', rank), 4) == 44, 'what was stored last is not in the file')
    end subroutine

    subroutine has_flavor_dynamic(win)
        WIN_TYPE, intent(in) :: win
        integer(MPI_ADDRESS_KIND) :: value
        logical :: found

        call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, found, ierr)
        call check(found .and. value == MPI_WIN_FLAVOR_DYNAMIC, 'the flavor of a dynamic window')
    end subroutine
end program
