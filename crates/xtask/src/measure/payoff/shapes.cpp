// Virtual calls, maps, strings and sorting: ROUNDS MIX. Mixes differ in which classes are common, so that training and reference can differ.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Node {
    virtual ~Node() = default;
    virtual long value(const std::map<std::string, long> &names) const = 0;
    virtual void write(std::string &out) const = 0;
};
using Child = std::unique_ptr<Node>;

struct Number : Node {
    long number;
    explicit Number(long n) : number(n) {}
    long value(const std::map<std::string, long> &) const override { return number; }
    void write(std::string &out) const override { out += std::to_string(number); }
};

struct Name : Node {
    std::string name;
    explicit Name(std::string n) : name(std::move(n)) {}
    long value(const std::map<std::string, long> &names) const override
    {
        auto found = names.find(name);
        return found == names.end() ? 0 : found->second;
    }
    void write(std::string &out) const override { out += name; }
};

struct Binary : Node {
    char op;
    Child left, right;
    Binary(char o, Child l, Child r) : op(o), left(std::move(l)), right(std::move(r)) {}
    long value(const std::map<std::string, long> &names) const override
    {
        long a = left->value(names), b = right->value(names);
        switch (op) {
        case '+': return a + b;
        case '-': return a - b;
        case '*': return (a * b) % 1000003;
        case '<': return a < b;
        default: return b ? a / b : 0;
        }
    }
    void write(std::string &out) const override
    {
        out += '(';
        left->write(out);
        out += op;
        right->write(out);
        out += ')';
    }
};

static unsigned seed = 7;
static unsigned next(unsigned end) { return (seed = seed * 1103515245u + 12345u) / 65536 % end; }

static Child tree(int depth, bool mix)
{
    if (depth == 0 || next(8) == 0) {
        if (next(mix ? 4 : 2) == 0)
            return std::make_unique<Name>("v" + std::to_string(next(40)));
        return std::make_unique<Number>(next(1000));
    }
    char op = "+-*</"[mix ? next(5) : next(3)];
    return std::make_unique<Binary>(op, tree(depth - 1, mix), tree(depth - 1, mix));
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    bool mix = argc > 2 && atoi(argv[2]);
    long sum = 0;
    for (int round = 0; round < rounds; round++) {
        Child root = tree(9, mix);
        std::map<std::string, long> names;
        for (int i = 0; i < 40; i++)
            names["v" + std::to_string(i)] = next(500);
        for (int i = 0; i < 20; i++) {
            names["v" + std::to_string(next(40))] += i;
            sum += root->value(names);
        }
        std::string text;
        root->write(text);
        std::vector<std::string> words;
        for (size_t at = 0; at + 5 < text.size(); at += 5)
            words.push_back(text.substr(at, 5));
        std::sort(words.begin(), words.end());
        sum += (long)words.size() + (words.empty() ? 0 : words.front()[0]);
    }
    printf("%ld\n", sum);
}
