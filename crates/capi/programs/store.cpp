// A store of small objects from C++, in DRAM and in a file.
//
//     store [DIRECTORY]    directory for the scratch file and the log

#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "terrace_objects.hpp"

namespace {

using terrace::object_id;

constexpr std::size_t MIB = std::size_t{1} << 20;
constexpr int TURNS = 10'000;

struct account {
    std::uint64_t number;
    std::int64_t balance;
};

void expect(bool holds, const std::string &what) {
    if (!holds) {
        throw std::runtime_error("it does not hold that " + what);
    }
}

/// Checks that some work fails with this status.
template <typename Work> void fails(terrace_status status, const std::string &what, Work work) {
    try {
        work();
    } catch (const terrace::error &error) {
        expect(error.status() == status && *error.what() != '\0', what + ", for that reason");
        return;
    }
    throw std::runtime_error("it works that " + what);
}

void bytes_and_values(const terrace::objects &store) {
    const object_id text = store.create("short");
    expect(store.get(text) == "short" && store.size(text) == 5, "bytes come back");
    store.put(text, "SHORT");
    store.write_at(text, 1, "ho");
    char part[3];
    store.read_at(text, 0, part, sizeof part);
    expect(std::string_view(part, 3) == "Sho", "a part was written");
    const std::string longer(5000, 'x');
    store.replace(text, longer);
    std::string again = "what was there before";
    store.get(text, again);
    expect(again == longer, "objects longer than a few bytes come back");
    store.resize(text, 300);
    expect(store.get(text) == longer.substr(0, 300), "it is shorter");
    store.replace(text, "");
    expect(store.get(text).empty() && store.exists(text), "it has no bytes");

    const object_id one = store.create_value(account{7, -100});
    account read = store.get_value<account>(one);
    expect(read.number == 7 && read.balance == -100, "values come back");
    read.balance = 5;
    store.put_value(one, read);
    expect(store.get_value<account>(one).balance == 5, "values change");
    fails(TERRACE_STATUS_LENGTH, "a shorter value", [&] { (void)store.get_value<account>(text); });
    fails(TERRACE_STATUS_BUFFER, "a longer one", [&] { (void)store.get_value<char>(one); });
    fails(TERRACE_STATUS_LENGTH, "other lengths", [&] { store.put(one, "as long"); });
    store.set_read_only(one, true);
    fails(TERRACE_STATUS_READ_ONLY, "a change of it", [&] { store.put_value(one, read); });
    expect(store.is_read_only(one), "it says so");
    store.set_read_only(one, false);
    store.remove(one);
    fails(TERRACE_STATUS_NOT_FOUND, "what is gone", [&] { (void)store.get(one); });
    store.remove(text);

    const object_id zeros = store.create_zeros(1000);
    expect(store.get(zeros) == std::string(1000, '\0'), "zeros are zeros");
    store.remove(zeros);
}

void ids(const terrace::objects &store) {
    const object_id own = store.reserve();
    expect(own != 0 && !store.exists(own), "it is an id and no object");
    store.create_reserved(own, "mine");
    expect(store.get(own) == "mine", "it is one now");
    store.remove(own);
    store.release(store.reserve());
    const object_id row = store.reserve_consecutive(3);
    for (object_id id = row; id < row + 3; id++) {
        store.release(id);
    }
    const object_id first = store.create_consecutive({"zero", "", "two"});
    expect(store.get(first + 2) == "two", "consecutive objects have consecutive ids");
    store.remove(first + 1);
    std::vector<object_id> found;
    store.for_each_id([&found](object_id id) { found.push_back(id); });
    expect(found == std::vector<object_id>{first, first + 2}, "all ids are shown in order");
    const auto ranges = store.id_ranges();
    expect(ranges.size() == 2 && ranges[1].first == first + 2, "a gap makes two ranges");
    store.remove(first);
    store.remove(first + 2);

    std::vector<object_id> many;
    for (int n = 0; n < 2000; n++) {
        many.push_back(store.create(std::string(n % 50, 'm')));
    }
    found.clear();
    store.for_each_id([&found](object_id id) { found.push_back(id); });
    expect(found.size() == many.size(), "they are as many as were made");
    const auto gone = store.remove_many(many);
    expect(gone.size() == 2000 && gone[1999] == TERRACE_STATUS_OK, "all of them go");
    expect(store.stats().objects == 0 && store.id_ranges().empty(), "nothing is left");
}

void batches(const terrace::objects &store) {
    std::vector<object_id> some;
    for (int n = 0; n < 100; n++) {
        some.push_back(store.create(std::string(30 + n, static_cast<char>('a' + n % 26))));
    }
    some.push_back(0);
    terrace::object_batch batch;
    for (int round = 0; round < 2; round++) {
        store.get_many(some, batch);
        expect(batch.size() == 101 && batch[99] == std::string(129, 'v'), "each is there");
        expect(batch.status(100) == TERRACE_STATUS_NOT_FOUND, "one is not");
    }
    fails(TERRACE_STATUS_NOT_FOUND, "to read it", [&] { (void)batch[100]; });
    const auto put = store.put_many({some[0], some[1]}, {std::string(30, '1'), "too short"});
    expect(put[0] == TERRACE_STATUS_OK && put[1] == TERRACE_STATUS_LENGTH, "each says what it is");
    expect(store.get(some[0]) == std::string(30, '1'), "what fits is put");
    fails(TERRACE_STATUS_INVALID, "fewer contents", [&] { (void)store.put_many(some, {}); });
    some.pop_back();
    (void)store.remove_many(some);
}

void locks_and_pins(const terrace::objects &store) {
    const object_id id = store.create("locked");
    terrace::object_lock lock = store.lock(id, TERRACE_LOCK_MODE_READ);
    expect(lock.object() == id && lock.get() == "locked", "its holder reads");
    expect(!store.try_lock(id, TERRACE_LOCK_MODE_WRITE).has_value(), "no writer");
    auto other = store.try_lock(id, TERRACE_LOCK_MODE_READ);
    expect(other.has_value(), "others read");
    fails(TERRACE_STATUS_TIMEOUT, "to write beside them",
          [&] { lock.upgrade(std::chrono::milliseconds(1)); });
    other.reset();
    lock.upgrade();
    lock.put("LOCKED");
    lock.replace(std::string(1000, 'l'));
    lock.resize(8);
    lock.put_value(std::uint64_t{42});
    expect(lock.get_value<std::uint64_t>() == 42, "values stand there, too");
    lock.downgrade();
    fails(TERRACE_STATUS_NOT_LOCKED, "readers write", [&] { lock.put("readonly"); });
    terrace::object_lock moved = std::move(lock);
    moved.unlock();

    {
        terrace::object_pin pin = store.pin(id);
        *static_cast<std::uint64_t *>(pin.data()) = 43;
        fails(TERRACE_STATUS_PINNED, "what is pinned goes", [&] { store.remove(id); });
        terrace::object_pin there = std::move(pin);
        expect(there.size() == 8 && store.get_value<std::uint64_t>(id) == 43, "it is written");
        pin = std::move(there);
        expect(pin.object() == id && store.stats().held == 1, "it is pinned once");
    }
    terrace::object_lock last = store.lock(id, TERRACE_LOCK_MODE_WRITE);
    last.remove();
    expect(!store.exists(id) && store.stats().held == 0, "locks and pins are given back");
}

/// No increment is lost by several threads that take the lock for each.
void counted(const terrace::objects &store) {
    const object_id id = store.create_value(account{1, 0});
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; thread++) {
        threads.emplace_back([&store, id] {
            for (int turn = 0; turn < TURNS; turn++) {
                terrace::object_lock lock = store.lock(id, TERRACE_LOCK_MODE_WRITE);
                account value = lock.get_value<account>();
                value.balance++;
                lock.put_value(value);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    expect(store.get_value<account>(id).balance == 3 * TURNS, "no step is lost");
    store.remove(id);
}

void use(const char *name, const terrace::objects &store) {
    bytes_and_values(store);
    ids(store);
    batches(store);
    locks_and_pins(store);
    counted(store);
    (void)store.defragment();
    const object_id left = store.create("left");
    expect(store.check_all().objects == store.stats().objects, "the store is in order");
    store.remove(left);
    std::printf("%-6s is used\n", name);
}

/// The contents of a log and of a dump are restored.
void lasting(const std::string &directory) {
    const std::string log = directory + "/store-log", dump = directory + "/store.dump";
    terrace_objects_options options = terrace_objects_options_default();
    options.log_dir = log.c_str();
    options.flags = TERRACE_OBJECTS_MAINTENANCE;
    object_id id;
    std::vector<std::string> heard;
    std::mutex lock;
    auto hear = [&](terrace_log_level level, const char *target, const char *message) {
        const std::lock_guard<std::mutex> guard(lock);
        if (level <= TERRACE_LOG_LEVEL_WARN) {
            heard.push_back(std::string(target) + ": " + message);
        }
    };
    terrace::set_log(hear);
    {
        terrace::objects store = terrace::objects::dram(16 * MIB, options);
        id = store.create("logged");
        store.sync();
        store.checkpoint();
        store.dump(dump);
        store.create("later");
        store.close();
    }
    {
        const terrace::objects store = terrace::objects::dram(16 * MIB, options);
        const terrace_objects_recovered found = store.recovered();
        expect(store.get(id) == "logged", "the log has it");
        expect(found.dump == 1 && found.changes == 1 && found.damages == 0, "it says of what");
        expect(store.damage().empty(), "nothing is damaged");
    }
    terrace::stop_log();
    expect(heard.empty(), "nothing is to be said");
    options = terrace_objects_options_default();
    options.dump = dump.c_str();
    expect(terrace::objects::on_node(0, 16 * MIB, options).get(id) == "logged", "so has the dump");
}

} // namespace

int main(int argc, char **argv) {
    const std::string directory = argc > 1 ? argv[1] : ".";
    try {
        use("dram", terrace::objects::dram(64 * MIB));
        terrace_region_options options = terrace_region_options_default();
        options.cap_bytes = 4 * MIB;
        const auto region = terrace::region::scratch(directory, 64 * MIB, options);
        use("region", terrace::objects::in(region));
        lasting(directory);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
