# SPDX-License-Identifier: BSD-3-Clause
# readme.sh ROOT: the commands under "Three ways to take one" of the root README do, as they stand there, what it says: in a copy of the
# sources, with an empty /usr/local and an /etc of their own, which need root and a mount namespace.
set -eu
root=$1
scratch=$(mktemp -d)
trap 'umount -l "$scratch/over" 2> /dev/null || :; rm -rf "$scratch"' EXIT # without || the trap ends here, and with its status
trap 'exit 1' HUP INT TERM
fail() { echo "FAILED: $*" >&2; exit 1; }

if [ "${2-}" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo "skip: needs root"; exit 77; }
    unshare -m mount -t tmpfs none /mnt 2> "$scratch/why" || { cat "$scratch/why"; echo "skip: needs a mount namespace"; exit 77; }
    unshare -m bash "$0" "$root" inside
    exit
fi

mount -t tmpfs none /usr/local
mkdir "$scratch/over" "$scratch/bin" "$scratch/tree"
mount -t tmpfs none "$scratch/over"
mkdir "$scratch/over/upper" "$scratch/over/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$scratch/over/upper,workdir=$scratch/over/work" none /etc
printf '#!/bin/sh\nexec "$@"\n' > "$scratch/bin/sudo"
chmod +x "$scratch/bin/sudo"
export PATH=$scratch/bin:$PATH
(cd "$root" && find . \( -name build -o -name .git \) -prune -o -type f -print0 | tar -c --null -T - -f -) | tar -x -C "$scratch/tree" -f -
cd "$scratch/tree"

# stands <command>: the README has this command, and it succeeds.
stands() {
    grep -qF "$1" README.md || fail "README.md no longer has: $1"
    bash -ec "$1" > "$scratch/log" 2>&1 || { tail -n 20 "$scratch/log"; fail "$1"; }
}

sed -n '/^\*\*Installed\*\*/,/^```$/p' README.md > "$scratch/head"
grep -q '^```$' "$scratch/head" || fail "README.md has no commands below **Installed**"
sed '1,/^\*\*Installed\*\*/d' README.md | sed '1,/^```$/d;/^```$/,$d' > "$scratch/commands"
bash -e "$scratch/commands" > "$scratch/log" 2>&1 || { tail -n 20 "$scratch/log"; fail "the commands below **Installed**"; }
./a.out true
mkdir user
printf 'cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(pmiwire REQUIRED)\nadd_executable(user ../examples/pmiwire.c)\n%s\n' \
    'target_link_libraries(user pmiwire::pmiwire)' > user/CMakeLists.txt
cmake -S user -B user/build > "$scratch/log" 2>&1 && cmake --build user/build >> "$scratch/log" 2>&1 ||
    { tail -n 20 "$scratch/log"; fail "find_package(pmiwire)"; }
user/build/user true
stands 'cc -c libpmiwire/src/*/*.c -Ilibpmiwire/include'
stands 'cmake --build build/release --target amalgamation'
[ -s build/release/amalgamation/pmiwire.c ] && [ -s build/release/amalgamation/pmiwire.h ] || fail "no amalgamation"
