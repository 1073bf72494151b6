# SPDX-License-Identifier: BSD-3-Clause
# names.pl <root>: names in the documents (*.md and the programs' manual pages) exist: files and headings behind links, paths below tests/,
# examples/, cmake/ and lib*/, and identifiers of the libraries, minirt and libpmi2, which code must have, not only comments.
use strict;
use warnings;

my $root = shift or die "usage: names.pl ROOT\n";
chdir $root or die "$root: $!\n";
my (@documents, %code);

sub slurp { open my $f, '<', $_[0] or die "$_[0]: $!\n"; local $/; return scalar <$f>; }

sub look_at {
    my $folder = shift;
    opendir my $d, $folder or die "$folder: $!\n";
    for my $file (map { $folder eq '.' ? $_ : "$folder/$_" } grep { !/^\./ } sort readdir $d) {
        if (-d $file && !-l $file) {
            look_at($file) unless $file =~ m{^build|/corpus$};
        } elsif ($file =~ /\.(md|[17])$/) {
            push @documents, $file unless $file =~ m{/transcripts/};
        } elsif ($file =~ /\.(c|h|cc|map|cmake|txt|sh)$/) {
            my $text = slurp($file);
            $text =~ s{/\*.*?\*/|//[^\n]*}{ }gs if $file =~ /\.(c|h|cc)$/;
            $code{$_} = 1 for $text =~ /\w+/g;
        }
    }
}
look_at('.');

my ($n, $wrong) = (0, 0);
sub check { my ($there, $document, $what) = @_; $n++; return if $there; print "FAILED: $document names $what, which is not there\n"; $wrong++; }

for my $document (@documents) {
    my $text = slurp($document);
    $text =~ s/^### Removed\n.*?(?=^#)//msg if $document eq 'CHANGELOG.md'; # it names what is gone
    my $folder = $document =~ m{^(.*)/} ? $1 : '.';
    while ($document =~ /\.md$/ && $text =~ /\]\(([^)\s]+)\)/g) {
        my ($path, $heading) = split /#/, $1, 2;
        next if $path =~ /^[a-z]+:/;
        my $to = $path eq '' ? $document : "$folder/$path";
        check(-e $to, $document, $path);
        next unless defined $heading && -e $to;
        my %headings = map { (my $h = lc) =~ s/[^\w -]//g; $h =~ s/ /-/g; ($h => 1) } slurp(-d $to ? "$to/README.md" : $to) =~ /^#+ (.*)$/mg;
        check($headings{$heading}, $document, "#$heading");
    }
    while ($text =~ m{(?<![\w./\$-])((?:tests|examples|cmake|lib(?:shmht|pmiwire|rankmap|storwin|asymreg))/[\w./-]*\w)}g) {
        my $path = $1;
        check(-e $path || -e "$folder/$path", $document, $path) unless $path =~ m{/[A-Z]+$}; # tests/LIB: any library
    }
    while ($text =~ /\b((?:shmht|pmiwire|rankmap|storwin|asymreg|minirt|SHMHT|PMIWIRE|RANKMAP|STORWIN|ASYMREG|MINIRT|PMI2?|PMIX)_\w+)(\*?)/g) {
        my ($name, $more) = ($1, $2);
        next if $name =~ /_(test|prop)_/; # of tests, made by CMake
        next if $name =~ /^PMIX_(ERR|MCA)_/; # codes and settings of libpmix
        $more ||= '*' if $name =~ /_$/;
        check($more ? scalar(grep { index($_, $name) == 0 } keys %code) : $code{$name}, $document, $name);
    }
}
die "few names: $n\n" if $n < 400;
print "$n names in ", scalar(@documents), " documents\n";
exit($wrong != 0);
