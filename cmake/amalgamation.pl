# SPDX-License-Identifier: BSD-3-Clause
# amalgamation.pl --name NAME --version X.Y.Z --folder LIBRARY --license FILE --out DIR: writes DIR/NAME.h, all public headers
# of the library, and DIR/NAME.c, all its sources, for projects that vendor two files.
#
# Each of the library's own headers is expanded where it is first included. Functions that sources share, NAME__f(), become
# static. No two sources define the same static name, macro or struct: tests/house/statics.pl says where two functions do, the compiler
# where anything else does.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Glob qw(bsd_glob);
use Getopt::Long;

my %opt;
GetOptions(\%opt, map { "$_=s" } qw(name version folder license out)) or die;
my ($name, $folder, $out) = @opt{qw(name folder out)};
my $public = "$folder/include";
my @sources = sort map { bsd_glob("$folder/src/$_") } "*.c", "*/*.c";
@sources or die "$folder/src: no sources\n";

sub text_of {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!\n";
    my $text = do { local $/; <$in> };
    $text =~ s{\A/\* SPDX-License-Identifier: [^\n]* \*/\n}{};
    $text =~ s{\A(/\*) SPDX-License-Identifier: [^\n]*\n}{$1\n};
    $text =~ s{\A// SPDX-License-Identifier: [^\n]*\n}{};
    return $text;
}

my %expanded;

# The text of a file with the library's own headers expanded. $in_source: those of include/ are in NAME.h already.
sub expand {
    my ($file, $in_source) = @_;
    my $result = '';
    for (split /^/, text_of($file)) {
        if (m{^\s*#\s*include\s*<(\Q$name\E(?:/[^>]+)?\.h)>}) {
            my $header = "$public/$1";
            next if $in_source || $expanded{$header}++;
            $result .= expand($header, 0);
        } elsif (/^\s*#\s*include\s*"([^"]+)"/) {
            my $header = dirname($file) . "/$1";
            1 while $header =~ s{[^/]+/\.\./}{};
            next if $expanded{$header}++;
            $result .= "\n/* ---- " . substr($header, 1 + length $folder) . " ---- */\n" . expand($header, 1);
        } else {
            $result .= $_;
        }
    }
    return $result;
}

# The functions that the sources share and no public header names, static. Each declaration begins its line. Functions that
# only tests call keep external linkage: a compiler warns of an unused static function.
sub private {
    my ($text, $header) = @_;
    my %uses;
    (my $bare = $text) =~ s{/\*.*?\*/|//[^\n]*}{}gs;
    $uses{$_}++ for $bare =~ /(?<!struct )\b(\Q$name\E__\w+)/g;
    $text =~ s{^(?=(?!static|typedef|extern|return|else)[A-Za-z_][^;={}\n]*?\b(\Q$name\E__\w+)\()}
              { $header =~ /\b$1\b/ || $uses{$1} <= 2 ? '' : 'static ' }gmex;
    return $text;
}

sub write_file {
    my ($file, $about, $text) = @_;
    my $license = text_of($opt{license});
    $license =~ s/^(?=.)/ * /gm;
    $license =~ s/^$/ */gm;
    open my $to, '>', "$out/$file" or die "$out/$file: $!\n";
    print $to "/* SPDX-License-Identifier: BSD-3-Clause\n * lib$name $opt{version}: $about Generated; do not edit.\n *\n$license */\n$text";
    close $to or die "$out/$file: $!\n";
}

$expanded{"$public/$name.h"} = 1;
my $header = expand("$public/$name.h", 0);
for (map { bsd_glob("$public/$_") } "*.h", "*/*.h") {
    $expanded{$_} or die "$_: $name.h does not include it\n";
}
my $gnu = grep { text_of($_) =~ /^\s*#\s*define\s+_GNU_SOURCE\b/m } @sources, map { bsd_glob("$folder/src/$_") } "*.h", "*/*.h";
my $code = $gnu ? "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n" : '';
$code .= "#include \"$name.h\"\n";
for my $source (@sources) {
    my $text = expand($source, 1);
    $text =~ s/^\s*#\s*ifndef\s+_GNU_SOURCE\n\s*#\s*define\s+_GNU_SOURCE\b[^\n]*\n\s*#\s*endif[^\n]*\n//gm;
    $text =~ s/^\s*#\s*define\s+_GNU_SOURCE\b[^\n]*\n//gm;
    $code .= "\n/* ---- " . substr($source, 1 + length $folder) . " ---- */\n$text";
}
write_file("$name.h", 'all public headers in one file.', $header);
write_file("$name.c", "all sources in one file, which needs $name.h and a C11 compiler.", private($code, $header));
