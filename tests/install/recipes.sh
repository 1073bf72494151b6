# SPDX-License-Identifier: BSD-3-Clause
# recipes.sh <tree> <version> <library>...: cmake/spack/package.py parses, its version is the project's, and CMake knows each variable that it
# sets; cmake/rpm/fencepost.spec makes the packages of that version.
set -eu
tree=$1 version=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

command -v python3 > /dev/null || { echo "skip: needs python3-minimal"; exit 77; }
recipe=$tree/cmake/spack/package.py
python3 - "$recipe" "$version" > "$scratch/variables" << 'EOF' || fail "package.py"
import ast, re, sys

recipe, version = sys.argv[1:]
with open(recipe) as file:
    text = file.read()
package = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
assert [node.name for node in package] == ["Fencepost"], "one class, Fencepost"
calls = [node.value for node in package[0].body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
named = {name: [call.args[0].value for call in calls if call.func.id == name] for name in ("version", "variant")}
assert version in named["version"], f"no version {version}"
for word in re.findall(r"[+~]([a-z]+)", text):
    assert word in named["variant"] or word == "cma", f"no variant {word}"
print("\n".join(sorted(set(re.findall(r"FENCEPOST_\w+", text)))))
EOF
[ "$(wc -l < "$scratch/variables")" -ge 8 ] || fail "package.py sets too little"
while read -r variable; do
    case $variable in
    *_FOUND) grep -rq "pkg_check_modules(${variable%_FOUND} " "$tree/cmake" ;;
    *) grep -rqE "(option|find_path|find_program|find_library)\($variable " "$tree/cmake" ;;
    esac || fail "package.py sets $variable, which CMake does not know"
done < "$scratch/variables"

rpmspec -q --qf '%{name} %{version}\n' "$tree/cmake/rpm/fencepost.spec" | sort > "$scratch/packages"
for library in "$@"; do
    printf '%s\n' "lib$library $version" "lib$library-devel $version"
done > "$scratch/wanted"
printf '%s\n' "fencepost $version" "fencepost-pmirun $version" "fencepost-tools $version" "fencepost-doc $version" "fencepost-slurm $version" >> "$scratch/wanted"
sort "$scratch/wanted" | diff - "$scratch/packages" || fail "fencepost.spec does not make these packages"
echo "package.py: $(wc -l < "$scratch/variables") variables; fencepost.spec: $(wc -l < "$scratch/packages") packages"
