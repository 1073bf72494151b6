#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sshd.sh: pmirun by ssh for real. An sshd of this test's own, with keys made for it, listens on several addresses of the loopback at a free port;
# each is a host. Some work; each of the others has one of ssh's faults, for which pmirun prints a message with a remedy. Environment: PMIRUN, RAWPMI
# (programs).
set -u
skip() {
    echo "skip: $*"
    exit 77
}
PATH=$PATH:/usr/sbin:/sbin
for want in sshd:openssh-server ssh:openssh-client ssh-keygen:openssh-client setpriv:util-linux dash:dash; do
    type "${want%%:*}" > /dev/null 2>&1 || skip "missing package ${want##*:}"
done
! grep -qs "^$(id -un):!" /etc/shadow || skip "the account $(id -un) is locked"
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd || skip "no /run/sshd, which sshd wants of root"
set -- fork
. "${0%/*}/harness.sh"
. "${0%/*}/../pmirun/no-batch.bash"
unset DISPLAY SSH_ASKPASS SSH_AUTH_SOCK
umask 077
mkdir "$dir/home" "$dir/bin"
for key in host other user; do ssh-keygen -q -t ed25519 -N '' -f "$dir/$key" || exit 1; done

# ---- the hosts ----
addresses=() number=1 port=
: > "$dir/match"
: > "$dir/known"
# host NAME KEY [COMMAND]: an address of its own, whose key pmirun's user knows as KEY's. A login runs COMMAND there, with the requested text in
# SSH_ORIGINAL_COMMAND.
host() {
    number=$((number + 1))
    addresses+=("127.0.0.$number")
    printf 'Host %s\n  HostName 127.0.0.%s\n  HostKeyAlias %s\n' "$1" "$number" "$1" >> "$dir/hosts"
    [ "$2" = none ] || echo "$1 $(cut -d' ' -f1,2 "$dir/$2.pub")" >> "$dir/known"
    [ $# = 2 ] && return
    printf '%s\n' '#!/bin/bash' "$3" > "$dir/login.$1"
    chmod +x "$dir/login.$1"
    printf 'Match LocalAddress 127.0.0.%s\n  ForceCommand %s\n' "$number" "$dir/login.$1" >> "$dir/match"
}
host alpha host
host beta host
host gamma host
host dashed host 'exec dash -c "$SSH_ORIGINAL_COMMAND"'
type tcsh > /dev/null 2>&1 && host c-like host 'exec tcsh -f -c "$SSH_ORIGINAL_COMMAND"'
host talks host 'echo "Welcome to talks"; echo "You have mail" >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"'
host reads host 'read -r line; exec sh -c "$SSH_ORIGINAL_COMMAND"'
host shut host 'echo "This account is currently not available."; exit 1'
host empty host "rm -f '$dir/here/pmirun'; exec sh -c \"\$SSH_ORIGINAL_COMMAND\"" # as if it was never installed
host new none
host changed other
host locked host
printf 'Host locked\n  PubkeyAuthentication no\n' > "$dir/config"
cat "$dir/hosts" >> "$dir/config"
printf 'Host closed\n  HostName 127.0.0.200\n' >> "$dir/config"

sshd_config() {
    printf 'Port %s\n' "$port"
    printf 'ListenAddress %s\n' "${addresses[@]}"
    cat << END
HostKey $dir/host
AuthorizedKeysFile $dir/user.pub
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
UseDNS no
PidFile none
MaxStartups 100
PrintMotd no
PrintLastLog no
SetEnv HOME=$dir/home NODES_MARK=$mark
END
    cat "$dir/match"
}
listens() { [ "$(grep -c 'Server listening on' "$dir/sshd.log")" = "${#addresses[@]}" ]; }
refused() { grep -q -e 'Bind to port' -e 'Cannot bind' "$dir/sshd.log"; }
ready() { listens || refused || ! kill -0 "$server" 2> /dev/null; }
# Our sshd ends with it, however this script ends.
for ((i = 0; i < 20; i++)); do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    : > "$dir/sshd.log"
    sshd_config > "$dir/sshd_config"
    setpriv --pdeathsig KILL -- "$(type -P sshd)" -D -f "$dir/sshd_config" -E "$dir/sshd.log" &
    server=$!
    soon ready
    listens && ! refused && break
    kill "$server" 2> /dev/null
    wait "$server" 2> /dev/null
done
listens || { cat "$dir/sshd.log"; skip "no sshd can be started here"; }

cat >> "$dir/config" << END
Host *
  Port $port
  User $(id -un)
  IdentityFile $dir/user
  IdentitiesOnly yes
  UserKnownHostsFile $dir/known
  GlobalKnownHostsFile none
END
printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(type -P ssh)" "$dir/config" > "$dir/bin/ssh"
chmod +x "$dir/bin/ssh"
PATH=$dir/bin:$PATH

# ---- hosts that work ----
nodes=(--hosts alpha,beta,gamma)
run 0 -n 6 "$RAWPMI" pgf
err_empty
run 0 -l -n 3 sh -c 'set -- $SSH_CONNECTION; echo $3' # at which address it was reached
[ "$(sorted | tr '\n' ' ')" = "[0] 127.0.0.2 [1] 127.0.0.3 [2] 127.0.0.4 " ] || fail "ranks are not where ssh went"
seq 20000 > "$dir/in"
stdin=$dir/in run 0 -n 3 cat
cmp -s "$dir/in" "$dir/out" || fail "standard input"
run 3 -n 3 sh -c '[ $PMI_RANK = 2 ] && exit 3; exit 0'
run 0 --launch "$dir/bin/ssh -T %h 'exec env FROM=%h %c'" -n 3 sh -c 'echo $FROM' # the user's own way
[ "$(sorted | tr '\n' ' ')" = "alpha beta gamma " ] || fail "ssh by a template"
begin -n 3 sh -c "echo ready; exec sleep $mark"
await 3 ready
kill -9 "$head"
wait "$limit" 2> /dev/null
nothing_left
for shell in dashed c-like; do
    grep -q "^Host $shell\$" "$dir/config" || continue
    nodes=(--hosts "alpha,$shell")
    run 0 -n 4 "$RAWPMI" pgf
    err_empty
done
nodes=(--hosts alpha,talks)
run 0 -n 4 "$RAWPMI" pgf
err_has '^pmirun: talks: Welcome to talks$'
err_has '^pmirun: talks: You have mail$'
err_has '^pmirun: the login on talks prints: harmless; to silence it, put \[ -t 1 \] || return at the top of ~/.bashrc there$'

# ---- hosts that fail ----
# wrong HOST MESSAGE: HOST is the one of two that pmirun cannot reach
wrong() {
    nodes=(--hosts "alpha,$1")
    run 253 -n 2 true
    err_has "^pmirun: node 1 ($1) is lost: $2"
    nothing_left
}
ended='ssh exited with status [0-9]* before its agent connected:'
wrong new "$ended its host key is not known here: log in by hand once (ssh new), or add the key to known_hosts; stopping the job\$"
wrong changed "$ended its host key is not the one in known_hosts: if that is right, remove the old one (ssh-keygen -R changed) and log in by hand once"
wrong locked "$ended it asks for a password, which pmirun cannot enter: install a key there (ssh-copy-id locked); a key with a passphrase needs ssh-agent"
wrong closed "$ended nothing answers there: is closed up? --wait-hosts SECONDS waits for it"
wrong shut "$ended does \"ssh -x shut exec true\" work by hand?"
err_has '^pmirun: shut: This account is currently not available.$'
wrong reads "${ended%:}; stopping the job\$"
err_has '^pmirun: reads: pmirun: agent: unexpected data on stdin: does a command that the login runs read stdin, as in ~/.bashrc?'
mkdir "$dir/here"
cp "$pmirun" "$dir/here/pmirun"
pmirun=$dir/here/pmirun
nodes=(--hosts empty)
run 253 -n 2 true
err_has "^pmirun: node 0 (empty) is lost: $ended pmirun must be there too, at the same path, with the libraries that it needs: install it on empty"
nothing_left
[ $failed = 0 ] && echo "$n runs, all as they should be"
exit $failed
