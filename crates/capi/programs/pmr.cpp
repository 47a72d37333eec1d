// Standard containers that are larger than their DRAM.
//
//     pmr [DIRECTORY]    directory for the scratch file

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "terrace_pmr.hpp"

namespace {

constexpr std::size_t MIB = std::size_t{1} << 20;
constexpr std::uint64_t WORDS = 4 * MIB; // 32 MiB of them
constexpr std::uint64_t KEYS = 200'000;  // about 40 MiB with their strings

void expect(bool holds, const std::string &what) {
    if (!holds) {
        throw std::runtime_error("it does not hold that " + what);
    }
}

std::uint64_t mix(std::uint64_t number) {
    number = (number ^ (number >> 31)) * 0x9e3779b97f4a7c15ull;
    return number ^ (number >> 29);
}

std::string text(std::uint64_t key) {
    return std::string(60 + key % 80, static_cast<char>('a' + key % 26)) + std::to_string(key);
}

void containers(std::pmr::memory_resource *memory) {
    std::pmr::vector<std::uint64_t> words(memory);
    for (std::uint64_t i = 0; i < WORDS; i++) {
        words.push_back(mix(i));
    }
    std::pmr::unordered_map<std::uint64_t, std::pmr::string> map(memory);
    for (std::uint64_t key = 0; key < KEYS; key++) {
        map.emplace(key, text(key));
    }
    expect(map.begin()->second.get_allocator().resource() == memory, "strings are there, too");
    for (std::uint64_t i = 0; i < WORDS; i++) {
        expect(words[i] == mix(i), "word " + std::to_string(i) + " is what was written");
    }
    for (std::uint64_t key = 0; key < KEYS; key += 3) {
        map.erase(key);
    }
    for (std::uint64_t key = 0; key < KEYS; key++) {
        auto found = map.find(key);
        if (key % 3 == 0) {
            expect(found == map.end(), "what was erased is gone");
        } else {
            expect(found != map.end() && std::string_view(found->second) == text(key),
                   "string " + std::to_string(key) + " is what was written");
        }
    }
}

void larger_than_its_cap(const std::string &directory) {
    terrace_region_options options = terrace_region_options_default();
    options.name = "scratch";
    options.cap_bytes = 16 * MIB;
    terrace::region region = terrace::region::scratch(directory, 256 * MIB, options);
    terrace::heap_resource memory(terrace::heap::in(region));
    containers(&memory);
    terrace_region_stats stats = region.stats();
    std::printf("%llu MiB written to the file, %llu read; %llu in DRAM\n",
                static_cast<unsigned long long>(stats.written_bytes / MIB),
                static_cast<unsigned long long>(stats.read_bytes / MIB),
                static_cast<unsigned long long>(stats.resident_bytes / MIB));
    expect(stats.written_bytes >= 32 * MIB, "bytes went to the file");
    expect(stats.read_bytes >= 16 * MIB, "bytes came back from the file");
    expect(stats.resident_bytes <= 16 * MIB, "the cap holds");
    expect(stats.poisoned == 0 && stats.latched[0] == '\0', "the file took everything");
}

// Several threads use one heap, and one thread frees objects of another.
void threads() {
    terrace::heap_resource memory(terrace::heap::dram(256 * MIB));
    using strings = std::pmr::vector<std::pmr::string>;
    std::vector<strings> all;
    for (int number = 0; number < 4; number++) {
        all.emplace_back(&memory);
    }
    std::vector<std::thread> workers;
    for (strings &own : all) {
        workers.emplace_back([&own] {
            for (std::uint64_t key = 0; key < KEYS / 4; key++) {
                own.emplace_back(text(key));
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    for (const strings &own : all) {
        for (std::uint64_t key = 0; key < KEYS / 4; key++) {
            expect(std::string_view(own[key]) == text(key), "threads do not meet in one object");
        }
    }
}

void resources() {
    terrace::ledger ledger(64 * MIB);
    terrace_heap_options options = terrace_heap_options_default();
    options.ledger = ledger.get();
    terrace::heap heap = terrace::heap::dram(32 * MIB, options);
    terrace::heap_resource memory(heap), same(heap.get());
    terrace::heap_resource other(terrace::heap::on_node(0, 32 * MIB));
    expect(memory == same && memory != other, "resources are equal when their heap is");
    expect(memory != *std::pmr::new_delete_resource(), "and to nothing else");

    for (std::size_t align = 1; align <= 1 << 16; align *= 2) {
        for (std::size_t bytes : {0, 1, 8, 100, 5000, 100'000}) {
            void *object = memory.allocate(bytes, align);
            expect(reinterpret_cast<std::uintptr_t>(object) % align == 0, "objects are aligned");
            expect(heap.contains(object), "objects are the heap's");
            same.deallocate(object, bytes, align);
        }
    }
    expect(ledger.granted() > 0 && ledger.granted() <= ledger.budget(), "objects are counted");
    bool thrown = false;
    try {
        std::pmr::vector<char> huge(64 * MIB, 'x', &memory);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    expect(thrown, "a heap without room throws std::bad_alloc");

    void *object = heap.allocate(100);
    heap.free(object);
    (void)heap.allocate(MIB);
    heap.reset();
    heap.trim();
    terrace_heap_stats stats = heap.stats();
    expect(stats.small_bytes == 0 && stats.large_bytes == 0, "a heap that was reset is empty");
}

void errors(const std::string &directory) {
    terrace_region_options options = terrace_region_options_default();
    try {
        terrace::region::scratch(directory, MIB, options);
        expect(false, "a region without a cap is refused");
    } catch (const terrace::error &error) {
        expect(error.status() == TERRACE_STATUS_INVALID, "an error has its status");
        expect(std::string(error.what()).find("cap_bytes") != std::string::npos, "and its text");
    }
    options.cap_bytes = 4 * MIB;
    terrace::region region = terrace::region::scratch(directory, 16 * MIB, options);
    {
        terrace::pin pin = region.pin(MIB, 100);
        static_cast<char *>(pin.data())[99] = 7;
        expect(pin.size() == 100, "a pin has its length");
    }
    region.prefetch(0, MIB);
    region.advise(0, MIB, TERRACE_ADVICE_RANDOM);
    region.set_cap(2 * MIB);
    region.evict(0, region.size());
    region.flush();
    expect(static_cast<char *>(region.data())[MIB + 99] == 7, "bytes come back");
    expect(region.block_bytes() == 262144, "blocks have 256 KiB");
    region.close();
}

} // namespace

int main(int argc, char **argv) {
    const std::string directory = argc > 1 ? argv[1] : ".";
    try {
        resources();
        errors(directory);
        threads();
        larger_than_its_cap(directory);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
