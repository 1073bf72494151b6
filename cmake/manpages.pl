# SPDX-License-Identifier: BSD-3-Clause
# manpages.pl --name <library> --version <x.y.z> --include <directory> --out <directory> [--readme <file>] [--core <library>]
#
# The public headers as manual pages, for `man`: a page of section 3 for each documented function and each struct, and <library>(7),
# which has the model, the functions by chapter, the constants and the README's example. The headers are the only source: comments
# in Doxygen's form, with @file, @brief, @param, @return, @name and the house's @threads, @allocates, @cost, @source, @units.
# <directory> is emptied of pages first. --core names the library that this one is a back-end of.
use strict;
use warnings;
use File::Path qw(make_path);
use Getopt::Long;
use POSIX qw(strftime);

my %opt;
GetOptions(\%opt, 'name=s', 'version=s', 'include=s', 'out=s', 'readme=s', 'core=s') && !@ARGV or exit 2;
for (qw(name version include out)) { defined $opt{$_} or die "manpages.pl: --$_ is missing\n" }
(my $id = $opt{name}) =~ tr/-/_/;
my $upper = uc $id;
my %tag_title = (threads => 'THREADS', allocates => 'MEMORY', cost => 'COST', source => 'SOURCE', units => 'UNITS');
my @tag_order = qw(units threads allocates cost source);

my (%functions, %types, %constants, @chapters); # by name; chapters in the order of the main header
my $newest = 0;

# ---------------------------------------------------------------- reading

sub slurp {
    my ($path) = @_;
    open my $in, '<:encoding(UTF-8)', $path or die "manpages.pl: $path: $!\n";
    local $/;
    return scalar <$in>;
}

# The text between the marks of a comment, without the stars at the left.
sub strip_stars {
    my ($text) = @_;
    $text =~ s/^[ \t]*\* ?//gm;
    $text =~ s/\s+\z//;
    $text =~ s/\A[ \t]*\n//;
    return $text;
}

# A comment as a hash: brief, body, params (list of [name, direction, text]), return, and the tags above.
sub parse_doc {
    my ($raw) = @_;
    my %doc = (brief => '', body => '', params => []);
    my $text = strip_stars($raw);
    $text =~ s/\@[{}]//g;
    my $into = \$doc{body};
    my $brief_open = 0;
    for my $line (split /\n/, $text) {
        if ($brief_open && $line =~ /^\s*$/) {
            $into = \$doc{body};
            $brief_open = 0;
        }
        while ($line =~ /^(.*?)(?<![\w@])\@(file|brief|param|return|name|threads|allocates|cost|source|units|private)\b(\[[a-z,]+\])?\s*(.*)$/) {
            my ($before, $tag, $direction, $rest) = ($1, $2, $3, $4);
            $$into .= $before if $before =~ /\S/;
            $brief_open = 0;
            if ($tag eq 'param') {
                $rest =~ s/^(\w+|\.\.\.)\s*//;
                push @{$doc{params}}, [$1, $direction ? $direction =~ tr/[]//dr : '', ''];
                $into = \$doc{params}[-1][2];
            } elsif ($tag eq 'private') {
                $doc{private} = 1;
            } else {
                $doc{$tag} = '' unless defined $doc{$tag};
                $into = \$doc{$tag};
                $brief_open = $tag eq 'brief' || $tag eq 'name' || $tag eq 'file';
            }
            $line = $rest;
        }
        $$into .= "$line\n";
        if ($brief_open && ($into == \$doc{file} || $into == \$doc{name})) { # one line each
            $into = \$doc{body};
            $brief_open = 0;
        }
    }
    s/\s+\z// for grep { !ref } @doc{grep { defined $doc{$_} && !ref $doc{$_} } keys %doc};
    if ($doc{brief} eq '' && !defined $doc{file} && !defined $doc{name}) { # as JAVADOC_AUTOBRIEF: the first sentence
        if ($doc{body} =~ s/\A(.*?[.:])(?=\s+[A-Z`]|\s*\z)\s*//s) { $doc{brief} = $1 }
        else { $doc{brief} = $doc{body}; $doc{body} = '' }
    }
    return \%doc;
}

# What follows a comment: a declaration up to its ; or the end of its body. Returns the text, and the part before the body.
sub take_declaration {
    my ($text) = @_; # reference, with pos()
    my $start = pos $$text;
    my ($depth, $head_end) = (0, undef);
    while ($$text =~ /\G(?:(\/\*.*?\*\/)|("(?:\\.|[^"\\])*")|([{}();])|([^{}();"\/]+|\/))/gcs) {
        next unless defined $3;
        my $c = $3;
        if ($c eq '{' || $c eq '(') {
            $head_end = pos($$text) - 1 if $c eq '{' && $depth == 0 && !defined $head_end;
            $depth++;
        } elsif ($c eq '}' || $c eq ')') {
            $depth--;
            last if $c eq '}' && $depth == 0 && substr($$text, $start, $head_end - $start) =~ /\)\s*$/; # of a function
        } elsif ($depth == 0) {
            last;
        }
    }
    my $end = pos($$text) // length $$text;
    $head_end //= $end;
    return (substr($$text, $start, $end - $start), substr($$text, $start, $head_end - $start));
}

sub one_line {
    my ($text) = @_;
    $text =~ s/[ \t\n]+/ /g;
    $text =~ s/^ | $//g;
    return $text;
}

sub add_constant {
    my ($name, $value, $text, $chapter, $group) = @_;
    return if $constants{$name} || $name =~ /_API$|_H$|_VERSION(_|$)|_LIKELY$/;
    $constants{$name} = { name => $name, value => $value, text => one_line($text), group => $group };
    push @{ $group->{constants} }, $name if $group;
    push @{ $chapter->{constants} }, $name unless $group;
}

sub read_header {
    my ($path, $include) = @_;
    my $text = slurp($path);
    my $mtime = (stat $path)[9];
    $newest = $mtime if $mtime > $newest;
    my $chapter = { include => $include, doc => { body => '' }, groups => [], sections => [], constants => [] };
    my $section = { title => '', functions => [], types => [] };
    push @{ $chapter->{sections} }, $section;
    my ($pending, $group);
    pos($text) = 0;
    while (pos($text) < length $text) {
        if ($text =~ /\G\s+/gc) {
            next;
        } elsif ($text =~ /\G\/\*\*<.*?\*\//gcs) {
            next;
        } elsif ($text =~ /\G\/\*\*(.*?)\*\//gcs) {
            my $raw = $1;
            my $doc = parse_doc($raw);
            if (defined $doc->{file}) { $chapter->{doc} = $doc }
            elsif (defined $doc->{name}) {
                $group = { title => $doc->{name}, body => $doc->{body}, doc => $doc, constants => [] };
                push @{ $chapter->{groups} }, $group;
            } elsif ($raw =~ /\@\}/) { $group = undef }
            elsif ($doc->{private}) { $pending = undef }
            else { $pending = $doc }
        } elsif ($text =~ /\G\/\* -{5,}\s*(.*?)\s*\*\//gcs) {
            $section = { title => ucfirst($1), functions => [], types => [] };
            push @{ $chapter->{sections} }, $section;
        } elsif ($text =~ /\G\/\*.*?\*\//gcs) {
            next;
        } elsif ($text =~ /\G#define[ \t]+(\w+)(\([^)]*\))?[ \t]*((?:\\\n|[^\n])*?)[ \t]*(?:\/\*\*<(.*?)\*\/[^\n]*|\/\*[^\n]*)?(?=\n)/gcs) {
            my ($name, $parameters, $value, $trailing) = ($1, $2, $3, $4);
            my $comment = defined $trailing ? strip_stars($trailing) : $pending ? "$pending->{brief} $pending->{body}" : '';
            add_constant($name, $value, $comment, $chapter, $group) unless $parameters;
            $pending = undef;
        } elsif ($text =~ /\G#(?:\\\n|[^\n])*/gc) {
            $pending = undef;
        } elsif ($text =~ /\Gextern "C" \{/gc || $text =~ /\G\}/gc) {
            next;
        } else {
            my ($all, $head) = take_declaration(\$text);
            my $doc = $pending;
            $pending = undef;
            if ($all =~ /^(struct|enum|union)\s+(\w+)\s*\{/) {
                my ($what, $name) = ($1, $2);
                if ($what eq 'enum') {
                    while ($all =~ /^\s*(\w+)\s*(?:=\s*([^,\/]*?))?\s*,?\s*(?:\/\*\*<(.*?)\*\/)?\s*$/gms) {
                        add_constant($1, $2 // '', strip_stars($3 // ''), $chapter, $group) if $1 ne 'enum';
                    }
                }
                next unless $doc;
                $types{$name} = { name => $name, what => $what, text => $all, doc => $doc, include => $include };
                push @{ $section->{types} }, $name;
            } elsif ($all =~ /^typedef\b.*?(\w+)\s*\(/s && $doc) {
                $types{$1} = { name => $1, what => 'typedef', text => $all, doc => $doc, include => $include };
                push @{ $section->{types} }, $1;
            } elsif ($head =~ /\b(\w+)\s*\(/ && $head !~ /^struct \w+;/) {
                my $name = $1;
                next unless $doc;
                my $prototype = $head;
                my $cut = $prototype =~ s/^(\w+_API\s+|static\s+inline\s+)// ? length $1 : 0;
                $prototype =~ s/\n {$cut}/\n/g;
                $prototype =~ s/\s*\z//;
                $prototype .= ';' unless $prototype =~ /;$/;
                $functions{$name} = { name => $name, prototype => $prototype, doc => $doc, include => $include, group => $group,
                    chapter => $chapter };
                push @{ $section->{functions} }, $name;
            }
        }
    }
    return $chapter;
}

# ---------------------------------------------------------------- roff

# Text of a line, escaped; inside code every hyphen is a minus.
sub escape {
    my ($text, $code) = @_;
    $text =~ s/\\/\\e/g;
    $text =~ s/\x{A0}/\\ /g;
    if ($code) { $text =~ s/-/\\-/g; $text =~ s/'/\\(aq/g }
    else { $text =~ s/(?<![A-Za-z])-|-(?![A-Za-z])/\\-/g }
    $text =~ s/\^/\\(ha/g;
    $text =~ s/~/\\(ti/g;
    $text =~ s/`/\\(ga/g;
    $text =~ s/([^\x00-\x7f])/sprintf '\\[u%04X]', ord $1/ge;
    return $text;
}

# Escaped text with its marks: `code`, **strong**, *emphasis*, and functions and constants in bold.
sub inline {
    my ($text) = @_;
    my $out = '';
    while ($text =~ /\G(?:`([^`]+)`|\*\*(\S(?:.*?\S)?)\*\*|(?<![\w*])\*(\w(?:[^*]*?\w)?)\*(?![\w*])|\b([a-z]\w*)\(\)|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+\b\*?)|(.))/gcs) {
        if (defined $1) { $out .= '\fB' . escape($1, 1) . '\fP' }
        elsif (defined $2) { $out .= '\fB' . escape($2) . '\fP' }
        elsif (defined $3) { $out .= '\fI' . escape($3) . '\fP' }
        elsif (defined $4) { $out .= '\fB' . escape($4, 1) . '\fP()' }
        elsif (defined $5) { $out .= '\fB' . escape($5, 1) . '\fP' }
        else {
            my $plain = $6;
            # As much as holds no mark, at once: the hyphens in it are judged by their neighbours.
            $plain .= $1 if $plain =~ /[^A-Za-z0-9_]/ ? $text =~ /\G([^`*A-Za-z0-9_]*)/gc : $text =~ /\G([A-Za-z0-9_-]*(?![A-Za-z0-9_(]))/gc;
            my $before = substr $text, 0, pos($text) - length $plain;
            my $joined = $before =~ /[A-Za-z]$/ && $plain =~ /^-/ && substr($text, pos $text, 1) =~ /[A-Za-z]/;
            $out .= $joined ? '-' . escape(substr $plain, 1) : escape($plain);
        }
    }
    return $out;
}

# A paragraph's lines; none may begin as a request.
sub lines {
    my ($text) = @_;
    $text =~ s/`([^`]+)`/'`' . ($1 =~ s{(^ +|  +)}{"\x{A0}" x length $1}ger) . '`'/ge; # blanks that count
    $text = inline(one_line($text));
    $text =~ s/(?<=[a-z0-9)][.?!])\s+(?=[A-Z(\\])/\n/g; # a sentence a line, but not after an initial
    $text =~ s/^(?=[.'])/\\&/gm;
    return "$text\n";
}

sub code {
    my ($text) = @_;
    my $out = '';
    for my $line (split /\n/, $text) {
        $line = escape($line, 1);
        $line =~ s/^(?=[.'])/\\&/;
        $out .= "$line\n";
    }
    return ".EX\n$out.EE\n";
}

# Text of several paragraphs, with lists and indented code. It ends as a paragraph does, without .PP.
sub blocks {
    my ($text) = @_;
    my (@out, @paragraph, $list, @heads);
    my $flush = sub {
        return unless @paragraph;
        push @out, lines(join "\n", @paragraph);
        @paragraph = ();
    };
    my @lines = split /\n/, $text;
    for (my $i = 0; $i < @lines; $i++) {
        my $line = $lines[$i];
        if ($line =~ /^\s*$/) {
            $flush->();
            my $next = $lines[$i + 1] // '';
            next if $next =~ /^\s*$/;
            if ($next =~ /^ {4,}\S/ && !($list && $next =~ /^ {0,5}\S/)) { # code
                my @code;
                while ($i + 1 < @lines && ($lines[$i + 1] =~ /^ {4}/ || ($lines[$i + 1] =~ /^\s*$/ && ($lines[$i + 2] // '') =~ /^ {4}/))) {
                    push @code, $lines[++$i];
                }
                s/^ {4}// for @code;
                push @out, ".PP\n.RS 4\n" . code(join "\n", @code) . ".RE\n";
                push @out, ".PP\n" if grep { /\S/ } @lines[$i + 1 .. $#lines];
                $list = 0;
            } elsif ($next !~ /^\s*(?:[-*]|\d+\.)\s/) {
                push @out, ".PP\n" if @out;
                $list = 0;
            }
        } elsif (($list || !@paragraph || $paragraph[-1] =~ /[:.]$/) && $line =~ /^(?:\s+[-*]|\s*\d+\.)\s/) {
            my ($mark, $rest) = $line =~ /^\s*(\S+)\s+(.*)$/;
            $rest =~ s/^([\w.\/-]+) {2,}/`$1`: /; # two columns
            $flush->();
            pop @out if @out && $out[-1] eq ".PP\n";
            push @out, $mark =~ /\d/ ? ".IP $mark 4\n" : ".IP \\(bu 2\n";
            @paragraph = ($rest);
            $list = 1;
        } elsif ($line =~ /^\s*\|(.*)\|\s*$/) { # a table: its first row are the titles
            my @cells = map { s/^\s+|\s+$//gr } split /\|/, $1, -1;
            $flush->();
            pop @out if @out && $out[-1] eq ".PP\n";
            if (!@heads) { @heads = @cells }
            elsif ("@cells" !~ /^[-: ]+$/) { push @out, table_row(\@heads, \@cells) }
        } else {
            push @paragraph, $line;
        }
    }
    $flush->();
    my $all = join '', @out;
    $all =~ s/^\.PP\n(?=\.[PIT]P)|\.PP\n\z//gm; # paragraphs of nothing
    return $all;
}

# Brief line and text of a comment, as paragraphs.
sub description {
    my ($doc) = @_;
    return blocks(join "\n\n", grep { /\S/ } $doc->{brief} // '', $doc->{body});
}

# A row of a table: the first cell stands out, the others say what they are.
sub table_row {
    my ($heads, $cells) = @_;
    my ($first, @rest) = @$cells;
    return ".TP\n" . inline($first) . "\n"
        . lines(join '; ', map { my $title = $heads->[$_ + 1]; $title =~ /\S/ ? "$title: $rest[$_]" : $rest[$_] } 0 .. $#rest);
}

# A struct as in the header, with ordinary comments.
sub struct_code {
    my ($type) = @_;
    my $text = $type->{text};
    $text =~ s/[ \t]*\/\*\* \@private \*\/[ \t]*\n//g;
    $text =~ s/\/\*\*<?/\/*/g;
    $text =~ tr/`//d;
    $text =~ s/\@param (\w+)/$1:/g;
    $text =~ s/\@return\b/Returns/g;
    $text =~ s/\@(\w+) /\u$1: /g;
    $text =~ s/\s*\z//;
    return ".PP\n" . code($text);
}

# The constants that a text names: one by one, as PREFIX_* or `PREFIX_ bits`, or as _NAME after another with the same beginning.
sub named_constants {
    my ($text) = @_;
    my (%seen, @names);
    my $last = $upper;
    while ($text =~ /(?<!\w)(_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)(_?\*|_(?!\w))?/g) {
        my ($word, $many) = ($1, $2 // '');
        if ($word =~ /^_/) {
            my $stem = $last;
            $stem =~ s/_[A-Z0-9]+$// or last until $constants{"$stem$word"} || $stem !~ /_/;
            $word = "$stem$word";
        }
        my $prefix = $word . ($many =~ /^_/ ? '_' : '');
        my @found = $many eq '' ? grep { $constants{$_} } $word : $word =~ /_/ ? sort grep { index($_, $prefix) == 0 } keys %constants : ();
        $last = $found[0] if @found;
        $seen{$_}++ or push @names, $_ for @found;
    }
    return @names;
}

sub list_constants {
    my $out = '';
    for my $name (@_) {
        my $constant = $constants{$name};
        my $value = $constant->{value};
        my $tag = '\fB' . escape($name, 1) . '\fP' . ($value ne '' && $value !~ /\\/ ? ' ' . escape($value, 1) : '');
        if ($constant->{text} eq '') { # no text of its own
            $out .= ".TP\n$tag\n\\&\n";
        } else {
            $out .= ".TP\n$tag\n" . lines(ucfirst_safe($constant->{text}));
        }
    }
    return $out;
}

# A sentence's first letter, unless it begins with a name.
sub ucfirst_safe {
    my ($text) = @_;
    return $text =~ /^[a-z]+(?:[ ,;:.]|$)/ ? ucfirst $text : $text;
}

sub is_error { $constants{$_[0]}{value} =~ /^\(-\d+\)$/ }

sub heading {
    my ($page, $section) = @_;
    my $date = strftime '%Y-%m-%d', gmtime($ENV{SOURCE_DATE_EPOCH} // $newest);
    return ".\\\" From the headers of lib$opt{name} by manpages.pl. SPDX-License-Identifier: BSD-3-Clause\n"
        . '.TH ' . escape(uc $page, 1) . " $section $date \"lib$opt{name} $opt{version}\" \"Fencepost\"\n.nh\n.ad l\n";
}

# The line that whatis shows.
sub name_line {
    my ($page, $brief) = @_;
    my $text = one_line($brief);
    $text =~ s/(?<=\w)\.\s.*// if length $text > 110; # the first sentence says it
    $text =~ s/[.:;]\s*\z//;
    $text = lcfirst $text if $text =~ /^[A-Z][a-z]/;
    $text =~ s/[`*]//g;
    return ".SH NAME\n" . escape($page, 1) . ' \- ' . escape($text) . "\n";
}

sub see_also {
    my ($page, @refs) = @_;
    my %seen = ($page => 1);
    my @pages = map { "\\fB" . escape($_, 1) . "\\fP(3)" } sort grep { !$seen{$_}++ } @refs;
    push @pages, $page eq $opt{name} ? '\fBpkg\-config\fP(1)' : '\fB' . escape($opt{name}, 1) . '\fP(7)';
    push @pages, "\\fB" . escape($opt{core}, 1) . "\\fP(7)" if $opt{core};
    return @pages ? ".SH SEE ALSO\n" . join(",\n", @pages) . "\n" : '';
}

sub write_page {
    my ($page, $section, $text) = @_;
    my $dir = "$opt{out}/man$section";
    make_path($dir);
    open my $out, '>:encoding(UTF-8)', "$dir/$page.$section" or die "manpages.pl: $dir/$page.$section: $!\n";
    print $out $text;
    close $out or die "manpages.pl: $dir/$page.$section: $!\n";
}

# ---------------------------------------------------------------- pages

sub references {
    my ($text) = @_;
    my @refs = grep { $functions{$_} } $text =~ /\b(\w+)\(\)/g;
    push @refs, grep { $types{$_} && !$functions{$_} } $text =~ /\b(?:struct|enum)\s+(\w+)/g;
    push @refs, grep { $types{$_} && $types{$_}{what} eq 'typedef' } $text =~ /\b(\w+_fn)\b/g;
    return @refs;
}

sub all_text {
    my ($doc) = @_;
    return join "\n", grep { defined } @{$doc}{qw(brief body return threads allocates cost source units)}, map { $_->[2] } @{ $doc->{params} };
}

sub synopsis {
    my ($include, $body) = @_;
    my $out = ".SH SYNOPSIS\n.nf\n\\fB#include <" . escape($include, 1) . ">\\fP\n";
    if (defined $body) {
        $out .= ".PP\n";
        $out .= '\fB' . escape($_, 1) . "\\fP\n" for split /\n/, $body;
    }
    return "$out.fi\n";
}

sub function_page {
    my ($f) = @_;
    my ($doc, $name) = ($f->{doc}, $f->{name});
    my $group = $f->{group} && $f->{group}{body} =~ /\S/ ? $f->{group} : undef;
    my $page = heading($name, 3) . name_line($name, $doc->{brief}) . synopsis($f->{include}, $f->{prototype});
    $page .= ".SH DESCRIPTION\n" . description($doc);
    $page .= '.SS ' . inline($group->{title}) . "\n" . blocks($group->{body}) if $group;
    if (@{ $doc->{params} }) {
        $page .= ".SH PARAMETERS\n";
        for my $param (@{ $doc->{params} }) {
            my ($parameter, $direction, $text) = @$param;
            $page .= ".TP\n\\fI" . escape($parameter, 1) . '\fP' . ($direction ? " [$direction]" : '') . "\n" . lines(ucfirst_safe($text));
        }
    }
    $page .= ".SH RETURN VALUE\n" . blocks(ucfirst_safe($doc->{return})) if defined $doc->{return};
    my $text = all_text($doc) . ($group ? "\n$group->{body}" : '');
    my @named = named_constants($text);
    my @errors = grep { is_error($_) } @named;
    my @others = grep { !is_error($_) } @named;
    $page .= ".SH ERRORS\n" . list_constants(@errors) if @errors;
    $page .= ".SH CONSTANTS\n" . list_constants(@others) if @others;
    for my $tag (@tag_order) {
        my $value = $doc->{$tag} // ($tag eq 'threads' ? $f->{chapter}{doc}{$tag} : undef);
        $page .= ".SH $tag_title{$tag}\n" . blocks(ucfirst_safe($value)) if defined $value && $value =~ /\S/;
    }
    if (my $type = $types{$name}) {
        $page .= ".SH TYPE\n" . blocks(join ' ', $type->{doc}{brief}, $type->{doc}{body}) . struct_code($type);
    }
    write_page($name, 3, $page . see_also($name, references("$text\n$f->{prototype}")));
}

sub type_page {
    my ($type) = @_;
    my ($doc, $name) = ($type->{doc}, $type->{name});
    my $page = heading($name, 3) . name_line($name, $doc->{brief}) . synopsis($type->{include}, undef) . struct_code($type);
    $page .= ".SH DESCRIPTION\n" . description($doc);
    my @named = named_constants(all_text($doc) . $type->{text});
    $page .= ".SH CONSTANTS\n" . list_constants(@named) if @named;
    my @users = grep { $functions{$_}{prototype} =~ /\b\Q$name\E\b/ } keys %functions;
    @users = () if @users > 40; # nearly every function: the overview has them
    write_page($name, 3, $page . see_also($name, @users, references(all_text($doc) . $type->{text})));
}

sub overview_constants {
    my ($chapter) = @_;
    my $out = '';
    $out .= list_constants(@{ $chapter->{constants} });
    for my $group (@{ $chapter->{groups} }) {
        next unless @{ $group->{constants} };
        $out .= '.SS ' . inline($group->{title}) . "\n";
        $out .= blocks($group->{body}) if $group->{body} =~ /\S/;
        $out .= list_constants(@{ $group->{constants} });
    }
    return $out;
}

sub overview_page {
    my ($main) = @_;
    my $page = heading($opt{name}, 7) . name_line($opt{name}, $main->{doc}{brief}) . synopsis($main->{include}, undef);
    $page .= ".PP\n\\fBcc\\fP \\fIfile\\fP.c \$(pkg\\-config \\-\\-cflags \\-\\-libs " . escape($opt{name}, 1) . ")\n";
    $page .= ".SH DESCRIPTION\n" . description($main->{doc});
    for my $tag (@tag_order) {
        $page .= ".SS " . ucfirst(lc $tag_title{$tag}) . "\n" . blocks(ucfirst_safe($main->{doc}{$tag})) if defined $main->{doc}{$tag};
    }
    for my $chapter (grep { $_ != $main } @chapters) {
        $page .= '.SH ' . escape(uc(($chapter->{include} =~ s/^.*\/|\.h$//gr)), 1) . "\n";
        $page .= description($chapter->{doc});
        $page .= ".PP\n" . blocks($chapter->{doc}{threads}) if defined $chapter->{doc}{threads};
    }
    my ($functions, $types) = ('', '');
    for my $chapter (@chapters) {
        my $title = $chapter == $main ? '' : $chapter->{include};
        for my $section (@{ $chapter->{sections} }) {
            my $head = $section->{title} || $title || 'General';
            $functions .= '.SS ' . inline($head) . "\n" if @{ $section->{functions} };
            $functions .= ".TP\n\\fB" . escape($_, 1) . "\\fP(3)\n" . lines($functions{$_}{doc}{brief}) for @{ $section->{functions} };
            $types .= ".TP\n" . ($types{$_}{what} eq 'typedef' ? '' : "$types{$_}{what} ") . '\fB' . escape($_, 1) . "\\fP(3)\n"
                . lines($types{$_}{doc}{brief}) for @{ $section->{types} };
        }
    }
    $page .= ".SH FUNCTIONS\n$functions";
    $page .= ".SH TYPES\n$types" if $types ne '';
    my $constants = join '', map { overview_constants($_) } @chapters;
    $page .= ".SH CONSTANTS\n$constants" if $constants ne '';
    if ($opt{readme} && slurp($opt{readme}) =~ /^```c\n(.*?)^```$/ms) {
        $page .= ".SH EXAMPLES\n" . code($1);
    }
    write_page($opt{name}, 7, $page . see_also($opt{name}));
}

my $main = read_header("$opt{include}/$opt{name}.h", "$opt{name}.h");
@chapters = ($main);
my %order;
my $n = 0;
$order{$_} //= $n++ for slurp("$opt{include}/$opt{name}.h") =~ /^#include <([^>]+)>/gm;
my @others = map { s/^\Q$opt{include}\E\/*//r } glob "\"$opt{include}\"/*/*.h";
push @chapters, read_header("$opt{include}/$_", $_)
    for sort { ($order{$a} // 999) <=> ($order{$b} // 999) || $a cmp $b } @others;
%functions or die "manpages.pl: no documented function in $opt{include}\n";

unlink glob "\"$opt{out}\"/man[37]/*.[37]";
function_page($functions{$_}) for sort keys %functions;
type_page($types{$_}) for grep { !$functions{$_} } sort keys %types;
overview_page($main);
printf "%d pages of lib%s\n", 1 + keys(%functions) + grep({ !$functions{$_} } keys %types), $opt{name};
