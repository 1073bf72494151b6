# SPDX-License-Identifier: BSD-3-Clause
# readmes.pl <root>: the READMEs of the five libraries have one shape, a picture before the first heading and then the headings below, in this
# order; and they, and the root's, stay below a number of words. Words in programs, links and pictures' names do not count. In no document has a
# cell of a table more than 40 words.
use strict;
use warnings;
use File::Find;

my $root = shift or die "usage: readmes.pl ROOT\n";
my @order = ('Contract', 'Error texts', 'Cost and memory', 'Limits', 'Figures', 'Beside others', 'When not to use it', 'Source');
my $wrong = 0;
sub fail { print "FAILED: @_\n"; $wrong = 1; }
sub slurp { open my $f, '<', $_[0] or die "$_[0]: $!\n"; local $/; return scalar <$f>; }

# check_words <name> <text> <most>
sub check_words {
    my ($name, $text, $most) = @_;
    $text =~ s/^```.*?^```//gms;
    $text =~ s/!\[[^\]]*\]\([^)]*\)//g;
    $text =~ s/\]\([^)]*\)/]/g;
    my $words = grep { /\w/ } split ' ', $text;
    print "$words words in $name\n";
    fail("$name has more than $most words") if $words > $most;
}

for my $library (qw(libshmht libpmiwire librankmap libstorwin libasymreg)) {
    my $name = "$library/README.md";
    my $text = slurp("$root/$name");
    check_words($name, $text, 1150);
    my ($head) = $text =~ /\A(.*?)^## /ms or fail("$name has no heading");
    fail("$name has no picture at its head") if $head !~ /^!\[/m;
    (my $prose = $text) =~ s/^```.*?^```//gms;
    my @found = $prose =~ /^## (.*)$/mg;
    shift @found; # the example
    fail("$name: headings are \"@found\", not an example and \"@order\"") if "@found" ne "@order";
}
check_words('README.md', slurp("$root/README.md"), 900);

find(sub {
    $File::Find::prune = 1, return if -d && /^(build.*|\.git)$/;
    return unless /\.md$/;
    (my $text = slurp($_)) =~ s/^```.*?^```//gms;
    for my $cell (map { split /(?<!\\)\|/ } $text =~ /^(\|.*)/mg) {
        $cell =~ s/\]\([^)]*\)/]/g;
        my $words = grep { /\w/ } split ' ', $cell;
        fail("$File::Find::name: a cell of $words words:$cell") if $words > 40;
    }
}, $root);
exit $wrong;
