# SPDX-License-Identifier: BSD-3-Clause
# page.pl <folder> <goals>: makes <folder>/index.html of <folder>/data/*.json, machine.tsv and <folder>/figures/*.svg, and draws with gnuplot
# what no script of a benchmark has drawn. Called by `make`, whose head says what lies where.
use strict;
use warnings;
use utf8;

my ($folder, $goals_file) = @ARGV;
@ARGV == 2 or die "usage: page.pl FOLDER GOALS\n";
my @chapters = (
    ['pmi', 'libpmiwire, pmirun and libpmi2', qr/^(?:bench_(?:codec|launch|exchange)|pmibench)/],
    ['shmht', 'libshmht', qr/^bench_shmht/],
    ['rankmap', 'librankmap', qr/^bench_rankmap/],
    ['storwin', 'libstorwin and swmpi', qr/^bench_(?:storwin|swmpi)/],
    ['asymreg', 'libasymreg', qr/^bench_asym/],
    ['together', 'Together', qr/./],
);
my $max_charts = 6; # of a benchmark
my $open_rows = 24; # tables with more rows are closed at first

sub slurp {
    my ($path) = @_;
    open my $in, '<:encoding(UTF-8)', $path or return '';
    local $/;
    return scalar(<$in>) // '';
}

sub html {
    my ($text) = @_;
    $text =~ s/&/&amp;/g;
    $text =~ s/</&lt;/g;
    $text =~ s/>/&gt;/g;
    $text =~ s/"/&quot;/g;
    return $text;
}

# Three digits that matter, thousands apart.
sub number {
    my ($value) = @_;
    return '' unless defined $value;
    my $size = abs $value;
    return sprintf '%.3g', $value if $size != 0 && ($size < 0.001 || $size >= 1e12);
    my $text = $size >= 100 || $value == int $value ? sprintf '%.0f', $value : sprintf '%.3g', $value;
    1 while $text =~ s/^(-?\d+)(\d{3})/$1 $2/;
    $text =~ s/ /\x{202F}/g;
    return $text;
}

# ---------------------------------------------------------------- figures

my (%figures, @benches); # by file: list of { bench case n who metric value unit }
for my $path (sort glob "\"$folder\"/data/*.json") {
    my ($name) = $path =~ /([^\/]+)\.json$/;
    for my $line (split /\n/, slurp($path)) {
        my %figure;
        $figure{$1} = defined $2 ? $2 : $3 while $line =~ /"(\w+)": ?(?:"([^"]*)"|([-+.\deE]+))/g;
        push @{ $figures{$name} }, \%figure if defined $figure{unit};
    }
}
my %state = map { /([^\/]+)\.(failed|skipped)$/ ? ($1 => [$2, slurp($_)]) : () } glob "\"$folder\"/data/*.failed \"$folder\"/data/*.skipped";
%figures or die "page.pl: no figure in $folder/data\n";
my %seen;
my @names = grep { !$seen{$_}++ } sort keys %figures, keys %state;

sub unique {
    my %had;
    return grep { !$had{$_}++ } @_;
}

# ---------------------------------------------------------------- charts

my @styles = ('#0b6623', '#b03a2e', '#2e4a8b', '#c08a1e', '#7d3c98', '#16a085', '#777777', '#e67e22', '#34495e', '#d98880', '#5aa469', '#aaaaaa');

sub quote {
    my ($text) = @_;
    $text =~ s/'/''/g;
    return "'$text'";
}

# Ours first, in the first colour; the others as they come.
sub in_order {
    return ((grep { /^ours/ } @_), (grep { !/^ours/ } @_));
}

# One chart's commands and, where gnuplot wants it, inline data.
sub chart_begin {
    my ($svg, $title, $unit) = @_;
    return "reset\nset terminal svg size 600,470 dynamic font 'sans,15' background rgb 'white'\nset encoding utf8\nset output " . quote($svg)
        . "\nset title " . quote($title) . " noenhanced font ',16'\nset ylabel " . quote($unit) . " noenhanced\nset border 3\nset tics nomirror\n"
        . "set grid ytics lc rgb '#dddddd'\nset key below maxrows 6 samplen 2 noenhanced font ',13'\nset datafile separator \"\\t\"\n";
}

sub line_chart {
    my ($svg, $title, $unit, @chosen) = @_;
    my $out = chart_begin($svg, $title, $unit);
    my (%points, @who);
    push @{ $points{ $_->{who} } }, $_ for @chosen;
    @who = grep { @{ $points{$_} } > 1 } in_order(unique(map { $_->{who} } @chosen));
    splice @who, 12 if @who > 12;
    return '' unless @who;
    my $positive = !grep { $_->{value} <= 0 } @chosen;
    $out .= "set logscale x\nset format x '10^{%L}'\n" . ($positive ? "set logscale y\n" : "set yrange [0:*]\n");
    my (@plots, $i);
    for my $who (@who) {
        my $data = join '', map { "$_->{n}\t$_->{value}\n" } sort { $a->{n} <=> $b->{n} } @{ $points{$who} };
        my $colour = $styles[ $i++ % @styles ];
        $out .= "\$d$i << EOD\n${data}EOD\n";
        push @plots, "\$d$i using 1:2 with linespoints lw " . ($who =~ /^ours/ ? 3 : 1.7) . " pt $i ps 0.6 lc rgb '$colour' title " . quote($who);
    }
    return $out . "set xlabel 'n'\nplot " . join(", \\\n", @plots) . "\n";
}

sub bar_chart {
    my ($svg, $title, $unit, @chosen) = @_;
    my @cases = unique(map { $_->{case} } @chosen);
    my @who = in_order(unique(map { $_->{who} } @chosen));
    splice @who, 8 if @who > 8;
    splice @cases, 10 if @cases > 10;
    return '' if @who < 2;
    my %value = map { ("$_->{case}\0$_->{who}" => $_->{value}) } @chosen;
    my @all = map { my $case = $_; grep { defined } map { $value{"$case\0$_"} } @who } @cases;
    return '' if @all < 2;
    my ($least, $most) = (sort { $a <=> $b } @all)[0, -1];
    my $out = chart_begin($svg, $title, $unit);
    $out .= $least > 0 && $most > 50 * $least ? "set logscale y\n" : "set yrange [0:*]\n";
    $out .= "set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.85 noborder\nset xtics rotate by -25 scale 0 noenhanced font ',12'\n";
    $out .= "\$d << EOD\n" . join('', map { my $case = $_; "$case\t" . join("\t", map { $value{"$case\0$_"} // 'NaN' } @who) . "\n" } @cases) . "EOD\n";
    my $i = 0;
    my @plots = map { $i++; '$d using ' . ($i + 1) . ($i == 1 ? ':xtic(1)' : '') . " lc rgb '$styles[$i - 1]' title " . quote($_) } @who;
    return $out . "plot " . join(", \\\n", @plots) . "\n";
}

# At most $max_charts of a benchmark: curves over n where there are three sizes, else bars at the largest size.
sub charts_of {
    my ($name) = @_;
    my @all = @{ $figures{$name} // [] };
    my ($script, $count) = ('', 0);
    for my $metric (unique(map { "$_->{metric}\0$_->{unit}" } @all)) {
        my ($title, $unit) = split /\0/, $metric;
        next if $title =~ /ratio|over |speedup|^processes$/ || $count >= $max_charts;
        my @mine = grep { "$_->{metric}\0$_->{unit}" eq $metric } @all;
        my $curves = 0;
        for my $case (unique(map { $_->{case} } @mine)) {
            my @chosen = grep { $_->{case} eq $case } @mine;
            next if unique(map { $_->{n} } @chosen) < 3 || $count >= $max_charts || $curves >= 3;
            my $svg = sprintf '%s/figures/%s-auto%02d.svg', $folder, $name, $count;
            my $commands = line_chart($svg, "$case: $title", $unit, @chosen) or next;
            $script .= $commands;
            $count++;
            $curves++;
        }
        next if $curves || $count >= $max_charts;
        my %largest;
        for (@mine) { $largest{ $_->{case} } = $_->{n} if ($largest{ $_->{case} } // -1) < $_->{n} }
        my $svg = sprintf '%s/figures/%s-auto%02d.svg', $folder, $name, $count;
        my $commands = bar_chart($svg, $title, $unit, grep { $_->{n} == $largest{ $_->{case} } } @mine) or next;
        $script .= $commands;
        $count++;
    }
    return $script;
}

my @own_figures = glob "\"$folder\"/figures/*.svg";
my $has_own = sub { my ($name) = @_; return $name =~ /^(?:pmibench\w*|bench_exchange)$/ || $name =~ /^bench_(?:shmht_(?:get|memory|clients|load|build)|rankmap_memory|swmpi_\w+)$/ };
my $script = join '', map { $has_own->($_) ? '' : charts_of($_) } @names;
if ($script ne '') {
    open my $gnuplot, '|-:encoding(UTF-8)', 'gnuplot' or die "page.pl: gnuplot: $!\n";
    print $gnuplot $script;
    close $gnuplot or warn "page.pl: gnuplot had something to say; figures may be missing\n";
}

# ---------------------------------------------------------------- the page

# As part of the page: the drawings' ids would collide if they were inline.
sub image {
    my ($path) = @_;
    my $svg = slurp($path);
    utf8::encode($svg);
    return '' if $svg !~ /<svg/;
    my ($title) = $path =~ /([^\/]+)\.svg$/;
    $title =~ s/-auto\d+$//;
    $title =~ s/^bench_//;
    $svg =~ s/([^A-Za-z0-9 _.,:;=\/()*+-])/sprintf '%%%02X', ord $1/ge;
    return '<figure><img alt="' . html($title) . "\" src=\"data:image/svg+xml,$svg\"></figure>\n";
}

sub table_of {
    my ($metric, $unit, @mine) = @_;
    my @who = in_order(unique(map { $_->{who} } @mine));
    my @rows = unique(map { "$_->{case}\0$_->{n}" } @mine);
    my %value = map { ("$_->{case}\0$_->{n}\0$_->{who}" => $_->{value}) } @mine;
    my $out = '<details' . (@rows <= $open_rows ? ' open' : '') . '><summary>' . html($metric) . ', ' . html($unit) . " <small>("
        . @rows . ' rows)</small></summary><div class="wide"><table><thead><tr><th>case</th><th>n</th>'
        . join('', map { '<th>' . html($_) . '</th>' } @who) . "</tr></thead><tbody>\n";
    my $before = '';
    for my $row (@rows) {
        my ($case, $n) = split /\0/, $row;
        $out .= '<tr><th>' . ($case eq $before ? '' : html($case)) . '</th><td>' . number($n) . '</td>'
            . join('', map { '<td' . (/^ours/ ? ' class="ours"' : '') . '>' . number($value{"$row\0$_"}) . '</td>' } @who) . "</tr>\n";
        $before = $case;
    }
    return "$out</tbody></table></div></details>\n";
}

sub bench_section {
    my ($name) = @_;
    my $out = "<section class=\"bench\"><h3 id=\"$name\">" . html($name) . "</h3>\n";
    my $command = slurp("$folder/data/$name.command");
    $out .= '<p class="command"><code>' . html($command) . "</code></p>\n" if $command ne '';
    if (my $why = $state{$name}) {
        return $out . '<p class="' . $why->[0] . '">' . ($why->[0] eq 'failed' ? 'Failed' : 'Skipped') . ': ' . html($why->[1]) . "</p></section>\n";
    }
    my @images = grep { /\/(?:\Q$name\E-auto\d+)\.svg$/ } glob "\"$folder\"/figures/*.svg";
    push @images, grep { /\/\Q$name\E-\w+\.svg$/ } @own_figures if $name =~ /^pmibench/;
    push @images, grep { /\/hosts-\w+\.svg$/ } @own_figures if $name eq 'bench_exchange';
    push @images, grep { /\/shmht-/ } @own_figures if $name eq 'bench_shmht_get';
    push @images, grep { /\/rankmap-/ } @own_figures if $name eq 'bench_rankmap_memory';
    my ($program) = $name =~ /^bench_(swmpi_\w+)$/;
    push @images, grep { /\/\Q$program\E\b/ } @own_figures if defined $program;
    my $figures = join '', map { image($_) } @images;
    $out .= "<div class=\"figures\">$figures</div>\n" if $figures ne '';
    my @mine = @{ $figures{$name} };
    $out .= "<div class=\"tables\">\n";
    for my $metric (unique(map { "$_->{metric}\0$_->{unit}" } @mine)) {
        my ($title, $unit) = split /\0/, $metric;
        $out .= table_of($title, $unit, grep { "$_->{metric}\0$_->{unit}" eq $metric } @mine);
    }
    return "$out</div></section>\n";
}

sub find_value {
    my ($bench, $case, $n, $metric, $who) = @_;
    for (map { @$_ } values %figures) {
        return $_->{value} if $_->{bench} eq $bench && $_->{case} eq $case && $_->{metric} eq $metric && $_->{who} eq $who
            && abs($_->{n} - $n) <= $n / 10;
    }
    return undef;
}

my %machine = map { split /\t/, $_, 2 } grep { /\t/ } split /\n/, slurp("$folder/data/machine.tsv");
my $quick = ($machine{run} // '') =~ /^quick/;

sub goals_table {
    my $out = "<table><thead><tr><th>figure</th><th>n</th><th>goal</th><th>here</th><th></th></tr></thead><tbody>\n";
    for my $line (grep { !/^#/ && /\|/ } split /\n/, slurp($goals_file)) {
        my ($bench, $case, $n, $metric, $who, $beside, $goal) = split /\|/, $line;
        my $value = find_value($bench, $case, $n, $metric, $who);
        if ($beside ne '') {
            my $other = find_value($bench, $case, $n, $metric, $beside);
            $value = defined $value && $other ? $value / $other : undef;
        }
        my ($relation, $bound) = $goal =~ /^([<>]=) ([\d.]+)$/ or die "page.pl: no goal: $line\n";
        my $verdict = !defined $value ? '<td class="none">not in this run</td>'
            : $quick && $metric ne 'instructions' ? '<td class="none">not to be judged: a quick run</td>'
            : ($relation eq '<=' ? $value <= $bound : $value >= $bound) ? '<td class="met">met</td>' : '<td class="missed">missed</td>';
        $out .= '<tr><th>' . html("$bench, $case: $metric, $who" . ($beside ne '' ? " / $beside" : '')) . '</th><td>' . number($n) . '</td><td>'
            . ($relation eq '<=' ? '≤ ' : '≥ ') . "$bound</td><td>" . (defined $value ? sprintf '%.3g', $value : '') . "</td>$verdict</tr>\n";
    }
    return "<div class=\"wide\">$out</tbody></table></div>\n";
}

my $style = <<'END';
:root { color-scheme: light; --ink: #1d2a23; --soft: #5b6a62; --line: #d9e0db; --accent: #0b6623; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff; }
h1 { font-size: 1.7rem; margin: .3rem 0; } h2 { margin: 2.2rem 0 .6rem; padding-top: .4rem; border-top: 3px solid var(--accent); font-size: 1.35rem; }
h3 { margin: 1.6rem 0 .2rem; font-size: 1.05rem; } p { margin: .4rem 0; } small, .command { color: var(--soft); } a { color: var(--accent); }
.command { font-size: .8rem; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: .5rem 0; border-bottom: 1px solid var(--line); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: .8rem; margin: .6rem 0; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 4px; padding: .3rem; background: #fff; } figure img { width: 100%; height: auto; display: block; }
.tables { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start; } details { max-width: 100%; } .wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; margin: .3rem 0 .8rem; }
th, td { padding: .18rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; vertical-align: top; }
tbody th, thead th:first-child { text-align: left; font-weight: 500; } thead th { color: var(--soft); font-weight: 600; }
#machine tbody th { color: var(--soft); } #machine td { text-align: left; white-space: normal; }
.ours { font-weight: 700; color: var(--accent); } .met { color: var(--accent); font-weight: 700; } .missed, .failed { color: #a52a1a; font-weight: 700; }
.none, .skipped { color: var(--soft); } summary { cursor: pointer; font-size: .92rem; font-weight: 600; padding: .15rem 0; }
.quick { background: #fff4d6; border-left: 4px solid #c08a1e; padding: .4rem .8rem; }
@media (max-width: 40rem) { tbody th { white-space: normal; min-width: 8rem; } th, td { padding: .18rem .35rem; } }
@media print { body { max-width: none; font-size: 10pt; padding: 0; } nav { display: none; } h2 { break-before: page; } figure, tr { break-inside: avoid; }
    .wide { overflow: visible; } table { font-size: 7.5pt; } th, td { white-space: normal; padding: .1rem .3rem; } .figures { grid-template-columns: 1fr 1fr; } }
END

my $count = 0;
$count += @$_ for values %figures;
my $page = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    . "<title>Fencepost: figures</title><style>\n$style</style>\n"
    . "<script>addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => d.open = true))</script></head><body>\n"
    . "<header><h1>Fencepost: figures</h1><p>" . html($machine{commit} // '') . '. ' . html($machine{date} // '') . '. '
    . scalar(keys %figures) . " benchmarks, $count figures.</p>\n";
$page .= '<p class="quick">A quick run: it shows that everything runs. Its figures are not to be trusted.</p>' . "\n" if $quick;
my %of;
for my $name (@names) {
    for my $chapter (@chapters) {
        next unless $name =~ $chapter->[2];
        push @{ $of{ $chapter->[0] } }, $name;
        last;
    }
}
$page .= '<nav><a href="#machine">Machine</a><a href="#goals">Goals</a>'
    . join('', map { $of{ $_->[0] } ? "<a href=\"#$_->[0]\">" . html($_->[1]) . '</a>' : () } @chapters) . "</nav></header>\n";
$page .= "<section id=\"machine\"><h2>Machine</h2><table><tbody>\n" . join('', map { "<tr><th>" . html($_) . '</th><td>' . html($machine{$_}) . "</td></tr>\n" }
    grep { defined $machine{$_} } 'processor', 'cores', 'governor', 'memory', 'kernel', 'load at the start', 'load at the end', 'compiler', 'build', 'commit',
    'date', 'run') . "</tbody></table>\n<p><small>Both sides of a comparison run in turns within one process or one run, and medians are shown; n is the"
    . " benchmark's own size (keys, ranks, regions, bytes).</small></p></section>\n";
$page .= "<section id=\"goals\"><h2>Goals</h2>\n" . goals_table() . "</section>\n";
for my $chapter (@chapters) {
    my ($id, $title) = @$chapter;
    next unless $of{$id};
    $page .= "<section id=\"$id\"><h2>" . html($title) . "</h2>\n" . join('', map { bench_section($_) } @{ $of{$id} }) . "</section>\n";
}
$page .= "</body></html>\n";
open my $out, '>:encoding(UTF-8)', "$folder/index.html.new" or die "page.pl: $folder/index.html.new: $!\n";
print $out $page;
close $out or die "page.pl: $!\n";
rename "$folder/index.html.new", "$folder/index.html" or die "page.pl: $!\n";
