# SPDX-License-Identifier: BSD-3-Clause
# statics.pl [--list] <root>: how many static functions of each library and program have a name of one word, and how many names stand in
# several of its files. It fails only for names that a library repeats. --list prints the names.
use strict;
use warnings;
use File::Find;

my $list = @ARGV && $ARGV[0] eq '--list' && shift;
my $root = shift or die "usage: statics.pl [--list] ROOT\n";
chdir $root or die "$root: $!\n";
my ($n, $wrong) = (0, 0);

# part <name> <folder>...
sub part {
    my ($part, @folders) = @_;
    my (%files, $functions);
    find({ no_chdir => 1, wanted => sub {
        return unless -f && /\.[ch]$/;
        open my $in, '<', $_ or die "$_: $!\n";
        my $text = do { local $/; <$in> };
        $text =~ s{/\*.*?\*/|//[^\n]*}{}gs;
        while ($text =~ /^static\b[^;={}()]*?\b(\w+)\s*\([^;{}]*\)\s*\{/mg) {
            $files{$1}{$_} = 1;
            $functions++;
        }
    } }, @folders);
    return unless $functions;
    $n += $functions;
    my @words = grep { !/_/ && $_ ne 'main' } sort keys %files;
    my @repeated = grep { keys %{ $files{$_} } > 1 } sort keys %files;
    printf "%-28s %4d static functions, %3d of one word (%4.1f %%), %3d names in several files\n",
        $part, $functions, scalar(@words), 100 * @words / $functions, scalar(@repeated);
    print "    one word: @words\n" if $list && @words;
    for my $name (@repeated) {
        next unless $list || $part =~ /^lib/;
        print $part =~ /^lib/ ? 'FAILED: ' : '    ', "$name: @{[sort keys %{ $files{$name} }]}\n";
    }
    $wrong = 1 if @repeated && $part =~ /^lib/;
}

part($_, "$_/src", "$_/include") for grep { -d "$_/src" } glob('lib* lib*/*');
part($_, $_) for grep { -d } glob('examples/*');
$n > 100 or die "few static functions\n";
exit $wrong;
