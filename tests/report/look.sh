# SPDX-License-Identifier: BSD-3-Clause
# look.sh <build> <folder> <chromium> [--page]: makes a quick report in <folder> and renders it in a headless browser: at a desktop's width,
# light and dark, at a phone's width, and printed. The page must have every question, chart and benchmark, load nothing from other hosts, and
# have no blank part. --page: uses the existing data. The renderings stay in <folder>: desk.png, dark.png, phone.png, print.pdf.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 out=$2 chromium=$3
scratch=$(mktemp -d)
child=
finish() {
    trap - EXIT HUP INT TERM
    [ -z "$child" ] || { kill -TERM "$child" 2> /dev/null && wait "$child" 2> /dev/null; }
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# browse <argument>...: the browser, with a profile of its own and no network.
browse() {
    timeout -k 5 120 "$chromium" --headless --disable-gpu --no-sandbox --disable-dev-shm-usage --no-first-run --no-default-browser-check \
        --disable-extensions --disable-background-networking --disable-component-update --proxy-server=127.0.0.1:9 \
        --user-data-dir="$scratch/profile" --hide-scrollbars --force-color-profile=srgb "$@" < /dev/null 2> "$scratch/browser.log" &
    child=$!
    local status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

echo '<p>hello</p>' > "$scratch/hello.html"
if ! browse --dump-dom "file://$scratch/hello.html" > "$scratch/dom" || ! grep -q hello "$scratch/dom"; then
    echo "skip: $chromium does not run here: $(tail -n 1 "$scratch/browser.log")"
    exit 77
fi
if [ "${4-}" != --page ]; then
    bash "$here/make" "$build" "$out" --quick
fi
python3 "$here/page.py" "$out" "$here/goals" > "$scratch/said"
if grep '^no figures for' "$scratch/said"; then fail "a benchmark's names are not those of questions.py"; fi
out=$(cd "$out" && pwd)
page=$out/index.html
[ -s "$page" ] || fail "no $page"

# The text, in the file and in the browser's document.
browse --dump-dom "file://$page" > "$scratch/dom" || fail "the browser does not read the page"
for id in get start fence memory table codec rank region storage mpi colours goals machine figures; do
    grep -q "<section id=\"$id\">" "$scratch/dom" || fail "no section $id"
done
while IFS=$'\t' read -r name needs _; do
    grep -qF "id=\"$name\"" "$scratch/dom" || fail "no section of $name"
    [ "$needs" != "needs " ] || [ ! -e "$out/data/$name.failed" ] || fail "$name: $(cat "$out/data/$name.failed")"
    [ "$needs" != "needs " ] || [ -s "$out/data/$name.json" ] || fail "no figures of $name"
done < "$build/report-benches.tsv"
for name in $(ctest --test-dir "$build" -N -R '^bench_.*_full$' | sed -n 's/.*: \(bench_[a-z0-9_]*\)_full$/\1/p'); do
    grep -q "^$name	" "$build/report-benches.tsv" || fail "$name is a benchmark, and not in the report"
done
for what in processor cores governor kernel 'load at the start' commit date; do
    grep -qE "<tr><th>$what</th><td>[^<]" "$scratch/dom" || fail "the machine has no $what"
done
charts=$(grep -o '<svg ' "$page" | wc -l)
[ "$charts" -ge 30 ] || fail "$charts charts only"
if grep -oE '(src|href|action|url)[=(] *"?(https?:)?//[^" )]*' "$page" | grep .; then fail "the page asks for something elsewhere"; fi
if grep -oE '<(link|iframe|object)[ >]' "$page" | grep .; then fail "the page has parts elsewhere"; fi

# The pictures. A picture that is blank, or whose lower half is, compresses to few bytes; each row of the PNG is compared after decoding.
browse --window-size=1300,6000 --screenshot="$out/desk.png" "file://$page?form=light" || fail "no picture"
browse --window-size=1300,6000 --screenshot="$out/dark.png" "file://$page?form=dark" || fail "no picture in the dark form"
browse --window-size=420,4000 --screenshot="$out/phone.png" "file://$page" || fail "no picture as on a telephone"
browse --no-pdf-header-footer --print-to-pdf="$out/print.pdf" "file://$page" || fail "no print"
for picture in 'desk light' 'dark dark' 'phone light'; do
    perl "$here/not_blank.pl" "$out/${picture% *}.png" "${picture#* }" || fail "$picture"
done
pages=$(grep -ac '/Type */Page\b' "$out/print.pdf") || fail "nothing printed"
[ "$pages" -ge 5 ] || fail "$pages pages printed only"

# On a phone only tables may be wider than the screen: the browser measures it.
sed 's|</body>|<script>document.title = "width " + document.documentElement.scrollWidth + " broken " + [...document.querySelectorAll("svg")].filter(s => !s.getBoundingClientRect().height).length</script></body>|' \
    "$page" > "$scratch/measured.html"
sed -i 's|document.title = |addEventListener("load", () => document.title = |; s|\.length</script>|.length)</script>|' "$scratch/measured.html"
browse --window-size=600,4000 --virtual-time-budget=10000 --dump-dom "file://$scratch/measured.html" | grep -o '<title>[^<]*' > "$scratch/title" || fail "not measured"
read -r _ width _ broken < "$scratch/title"
[ "$width" -le 600 ] || fail "the page is $width pixels wide on a screen of 600"
[ "$broken" -eq 0 ] || fail "$broken charts have no height"
echo "$charts charts, $pages printed pages; $out/desk.png, dark.png, phone.png, print.pdf"
