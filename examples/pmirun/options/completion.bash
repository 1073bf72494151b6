# SPDX-License-Identifier: BSD-3-Clause
# Completion of pmirun's command line in bash. `pmirun --help=names` lists the options and their values.
_pmirun() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} names scope argument values one words=()

    if [[ $before = '=' ]]; then # bash splits words at = too
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $word = '=' ]]; then
        word=
    fi
    while IFS=$'\t' read -r names scope argument values; do
        [[ $scope = group || $scope = job ]] || continue
        for one in $names; do
            words+=("$one")
            [[ $COMP_CWORD -gt 1 && $argument != - && $one = "$before" ]] || continue
            case $argument in
            FILE) COMPREPLY=($(compgen -f -- "$word")) ;;
            DIR) COMPREPLY=($(compgen -d -- "$word")) ;;
            PROG) COMPREPLY=($(compgen -c -f -- "$word")) ;;
            \[=*) continue ;;
            *) [[ $values = - ]] || COMPREPLY=($(compgen -W "$values" -- "$word")) ;;
            esac
            return
        done
    done < <("${COMP_WORDS[0]}" --help=names 2> /dev/null)
    case $word in
    -*) COMPREPLY=($(compgen -W "${words[*]}" -- "$word")) ;;
    *) COMPREPLY=($(compgen -c -f -- "$word")) ;;
    esac
}
complete -o filenames -F _pmirun pmirun mpiexec.fencepost
