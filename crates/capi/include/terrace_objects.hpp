// Terrace for C++17: stores of small objects, with RAII locks and pins, and errors as exceptions.
//
//     terrace::objects store = terrace::objects::dram(8ull << 30);
//     terrace::object_id id = store.create("an object");
//     {
//         terrace::object_lock lock = store.lock(id, TERRACE_LOCK_MODE_WRITE);
//         lock.replace(lock.get() + " that is longer");
//     }
//     std::string now = store.get(id);
//
// Values that are trivially copyable can be stored as objects, too: create_value, get_value,
// put_value.

#ifndef TERRACE_OBJECTS_HPP
#define TERRACE_OBJECTS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace.h"
#include "terrace_pmr.hpp"

namespace terrace {

/// Id of an object of a store; 0 is the id of none.
using object_id = std::uint64_t;

/// Timeout of a wait without a limit.
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

namespace detail {

inline std::uint64_t timeout(std::chrono::milliseconds wait) noexcept {
    if (wait == forever) {
        return UINT64_MAX;
    }
    return wait.count() < 0 ? 0 : static_cast<std::uint64_t>(wait.count());
}

/// Reads all bytes of an object; `read` returns the length even if there was too little room.
template <typename Read> void read_all(std::string &to, Read read) {
    char few[256];
    std::size_t len = 0;
    terrace_status status = read(few, sizeof few, &len);
    if (status == TERRACE_STATUS_OK) {
        to.assign(few, len);
        return;
    }
    while (status == TERRACE_STATUS_BUFFER) {
        // The object may have grown again by the next read.
        to.resize(len);
        status = read(to.data(), to.size(), &len);
    }
    check(status);
    to.resize(len);
}

/// Reads a value, which must have as many bytes as the object.
template <typename T, typename Read> T read_value(Read read) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                  "objects hold the bytes of values that may be copied by them");
    T value{};
    std::size_t len = 0;
    check(read(&value, sizeof value, &len));
    if (len != sizeof value) {
        const std::string text = "an object of " + std::to_string(len) + " bytes is no value of " +
                                 std::to_string(sizeof value);
        throw error(TERRACE_STATUS_LENGTH, text.c_str());
    }
    return value;
}

inline std::vector<terrace_bytes> bytes_of_all(const std::vector<std::string_view> &contents) {
    std::vector<terrace_bytes> all;
    all.reserve(contents.size());
    for (std::string_view bytes : contents) {
        all.push_back({bytes.data(), bytes.size()});
    }
    return all;
}

/// Returns true for the failure of a whole batch: no object was processed. Failures of single
/// objects are reported for each.
inline bool is_of_all(terrace_status status) noexcept {
    return status == TERRACE_STATUS_INVALID || status == TERRACE_STATUS_PANIC;
}

template <typename T> std::string_view bytes_of(const T &value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                  "objects hold the bytes of values that may be copied by them");
    return {reinterpret_cast<const char *>(&value), sizeof value};
}

} // namespace detail

/// A lock of an object, released on destruction. It keeps the store alive. It must not be used by
/// two threads at once, but may be passed between threads.
///
/// The functions of the store wait for locks, including the caller's own: use the functions of the
/// lock while it is held.
class object_lock {
public:
    explicit object_lock(terrace_lock *owned) noexcept : handle_(owned) {}

    object_id object() const noexcept { return terrace_lock_object(get_handle()); }

    void get(std::string &to) const {
        detail::read_all(to, [this](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_lock_get(get_handle(), buffer, room, len);
        });
    }
    std::string get() const {
        std::string bytes;
        get(bytes);
        return bytes;
    }
    template <typename T> T get_value() const {
        return detail::read_value<T>([this](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_lock_get(get_handle(), buffer, room, len);
        });
    }

    void put(std::string_view bytes) {
        check(terrace_lock_put(get_handle(), bytes.data(), bytes.size()));
    }
    template <typename T> void put_value(const T &value) { put(detail::bytes_of(value)); }
    void replace(std::string_view bytes) {
        check(terrace_lock_replace(get_handle(), bytes.data(), bytes.size()));
    }
    void resize(std::size_t len) { check(terrace_lock_resize(get_handle(), len)); }
    /// Removes the object and releases the lock.
    void remove() { check(terrace_lock_remove(get_handle())); }

    /// Upgrades a read lock to a write lock without releasing it in between. On failure the read
    /// lock is kept.
    void upgrade(std::chrono::milliseconds wait = forever) {
        check(terrace_lock_upgrade(get_handle(), detail::timeout(wait)));
    }
    /// Downgrades a write lock to a read lock without releasing it in between.
    void downgrade() { check(terrace_lock_downgrade(get_handle())); }

    void unlock() noexcept { handle_.reset(); }

    terrace_lock *get_handle() const noexcept { return handle_.get(); }

private:
    detail::handle<terrace_lock> handle_;
};

/// A pin: the object stays at its address until this is destroyed, which must be before the store
/// is.
class object_pin {
public:
    object_pin(const terrace_objects *store, object_id object)
        : store_(store), object_(object) {
        check(terrace_objects_pin(store, object, &data_, &size_));
    }
    object_pin(object_pin &&other) noexcept
        : store_(std::exchange(other.store_, nullptr)), object_(other.object_), data_(other.data_),
          size_(other.size_) {}
    object_pin &operator=(object_pin &&other) noexcept {
        object_pin taken(std::move(other));
        std::swap(store_, taken.store_);
        std::swap(object_, taken.object_);
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        return *this;
    }
    object_pin(const object_pin &) = delete;
    object_pin &operator=(const object_pin &) = delete;
    ~object_pin() {
        if (store_ != nullptr) {
            (void)terrace_objects_unpin(store_, object_);
        }
    }

    object_id object() const noexcept { return object_; }
    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    const terrace_objects *store_;
    object_id object_;
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

/// Results of a read of many objects. Its memory is reused by the next read.
class object_batch {
public:
    std::size_t size() const noexcept { return parts_.size(); }

    /// Returns TERRACE_STATUS_OK, or the reason that an object was not read.
    terrace_status status(std::size_t n) const { return parts_.at(n).status; }

    /// Returns the bytes of an object, valid until the next read; throws terrace::error if it was
    /// not read.
    std::string_view operator[](std::size_t n) const {
        const terrace_part &part = parts_.at(n);
        if (part.status != TERRACE_STATUS_OK) {
            throw error(part.status, terrace_status_name(part.status));
        }
        return std::string_view(bytes_).substr(part.offset, part.len);
    }

private:
    friend class objects;

    std::string bytes_;
    std::vector<terrace_part> parts_;
};

/// A store of small objects, which are accessed by id. Any thread may use it. It ends, with every
/// object, when this and all locks have ended.
class objects {
public:
    static objects dram(std::size_t bytes, const terrace_objects_options &options =
                                               terrace_objects_options_default()) {
        terrace_objects *made = nullptr;
        check(terrace_objects_dram(bytes, &options, &made));
        return objects(made);
    }

    static objects on_node(std::uint32_t node, std::size_t bytes,
                           const terrace_objects_options &options =
                               terrace_objects_options_default()) {
        terrace_objects *made = nullptr;
        check(terrace_objects_node(node, bytes, &options, &made));
        return objects(made);
    }

    /// Creates a store in a part of a region that no other code uses; 0 bytes mean all up to its
    /// end.
    static objects in(const region &below, std::size_t offset = 0, std::size_t bytes = 0,
                      const terrace_objects_options &options = terrace_objects_options_default()) {
        terrace_objects *made = nullptr;
        check(terrace_objects_region(below.get(), offset, bytes, &options, &made));
        return objects(made);
    }

    /// Closes the store; throws terrace::error if the last changes could not be made durable.
    void close() { check(terrace_objects_close(handle_.release())); }

    /// Returns the results of the recovery when the store was opened.
    terrace_objects_recovered recovered() const {
        terrace_objects_recovered found{};
        check(terrace_objects_get_recovered(get_handle(), &found));
        return found;
    }
    /// Returns a sentence about each part that was left out then.
    std::vector<std::string> damage() const {
        std::vector<std::string> all;
        while (const char *text = terrace_objects_damage(get_handle(), all.size())) {
            all.emplace_back(text);
        }
        return all;
    }

    object_id create(std::string_view bytes) const {
        object_id id = 0;
        check(terrace_objects_create_with(get_handle(), bytes.data(), bytes.size(), &id));
        return id;
    }
    template <typename T> object_id create_value(const T &value) const {
        return create(detail::bytes_of(value));
    }
    object_id create_zeros(std::size_t len) const {
        object_id id = 0;
        check(terrace_objects_create(get_handle(), len, &id));
        return id;
    }
    /// Creates objects with consecutive ids, all or none. Returns the first id.
    object_id create_consecutive(const std::vector<std::string_view> &contents) const {
        const std::vector<terrace_bytes> all = detail::bytes_of_all(contents);
        object_id first = 0;
        check(terrace_objects_create_consecutive(get_handle(), all.data(), all.size(), &first));
        return first;
    }

    /// Reserves an id without an object, for create_reserved or release.
    object_id reserve() const {
        object_id id = 0;
        check(terrace_objects_reserve(get_handle(), &id));
        return id;
    }
    object_id reserve_consecutive(std::size_t count) const {
        object_id first = 0;
        check(terrace_objects_reserve_consecutive(get_handle(), count, &first));
        return first;
    }
    void release(object_id id) const { check(terrace_objects_release(get_handle(), id)); }
    /// Creates an object with a reserved id, or one of another node.
    void create_reserved(object_id id, std::string_view bytes) const {
        check(terrace_objects_create_reserved(get_handle(), id, bytes.data(), bytes.size()));
    }

    bool exists(object_id id) const noexcept { return terrace_objects_exists(get_handle(), id); }
    std::size_t size(object_id id) const {
        std::size_t len = 0;
        check(terrace_objects_size(get_handle(), id, &len));
        return len;
    }

    void get(object_id id, std::string &to) const {
        detail::read_all(to, [this, id](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_objects_get(get_handle(), id, buffer, room, len);
        });
    }
    std::string get(object_id id) const {
        std::string bytes;
        get(id, bytes);
        return bytes;
    }
    template <typename T> T get_value(object_id id) const {
        return detail::read_value<T>([this, id](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_objects_get(get_handle(), id, buffer, room, len);
        });
    }
    /// Reads len bytes of the object, from the offset on.
    void read_at(object_id id, std::size_t offset, void *to, std::size_t len) const {
        check(terrace_objects_read_at(get_handle(), id, offset, to, len));
    }

    /// Replaces the bytes of the object by the same number of bytes.
    void put(object_id id, std::string_view bytes) const {
        check(terrace_objects_put(get_handle(), id, bytes.data(), bytes.size()));
    }
    template <typename T> void put_value(object_id id, const T &value) const {
        put(id, detail::bytes_of(value));
    }
    void write_at(object_id id, std::size_t offset, std::string_view bytes) const {
        check(terrace_objects_write_at(get_handle(), id, offset, bytes.data(), bytes.size()));
    }
    /// Replaces the contents of the object by more or fewer bytes.
    void replace(object_id id, std::string_view bytes) const {
        check(terrace_objects_replace(get_handle(), id, bytes.data(), bytes.size()));
    }
    void resize(object_id id, std::size_t len) const {
        check(terrace_objects_resize(get_handle(), id, len));
    }
    void remove(object_id id) const { check(terrace_objects_remove(get_handle(), id)); }

    bool is_read_only(object_id id) const {
        bool read_only = false;
        check(terrace_objects_is_read_only(get_handle(), id, &read_only));
        return read_only;
    }
    void set_read_only(object_id id, bool read_only) const {
        check(terrace_objects_set_read_only(get_handle(), id, read_only));
    }

    object_lock lock(object_id id, terrace_lock_mode mode,
                     std::chrono::milliseconds wait = forever) const {
        terrace_lock *made = nullptr;
        check(terrace_objects_lock(get_handle(), id, mode, detail::timeout(wait), &made));
        return object_lock(made);
    }
    /// Returns no lock if other locks conflict for the whole wait.
    std::optional<object_lock>
    try_lock(object_id id, terrace_lock_mode mode,
             std::chrono::milliseconds wait = std::chrono::milliseconds::zero()) const {
        terrace_lock *made = nullptr;
        const terrace_status status =
            terrace_objects_lock(get_handle(), id, mode, detail::timeout(wait), &made);
        if (status == TERRACE_STATUS_TIMEOUT) {
            return std::nullopt;
        }
        check(status);
        return object_lock(made);
    }
    object_pin pin(object_id id) const { return object_pin(get_handle(), id); }

    /// Reads many objects. Those that cannot be read do not affect the others; the batch has a
    /// status for each.
    void get_many(const std::vector<object_id> &ids, object_batch &to) const {
        to.parts_.resize(ids.size());
        std::size_t needed = to.bytes_.size();
        terrace_status status = TERRACE_STATUS_BUFFER;
        while (status == TERRACE_STATUS_BUFFER) {
            to.bytes_.resize(needed);
            status = terrace_objects_get_many(get_handle(), ids.data(), ids.size(),
                                              to.bytes_.data(), to.bytes_.size(),
                                              to.parts_.data(), &needed);
        }
        if (detail::is_of_all(status)) {
            to.parts_.clear();
            check(status);
        }
    }
    /// Replaces the bytes of many objects; there must be as many contents as ids. Returns a status
    /// for each.
    std::vector<terrace_status> put_many(const std::vector<object_id> &ids,
                                         const std::vector<std::string_view> &contents) const {
        if (ids.size() != contents.size()) {
            throw error(TERRACE_STATUS_INVALID, "as many contents are put as there are ids");
        }
        const std::vector<terrace_bytes> all = detail::bytes_of_all(contents);
        std::vector<terrace_status> statuses(ids.size(), TERRACE_STATUS_OK);
        each(terrace_objects_put_many(get_handle(), ids.data(), all.data(), ids.size(),
                                      statuses.data()));
        return statuses;
    }
    /// Removes many objects. Returns a status for each.
    std::vector<terrace_status> remove_many(const std::vector<object_id> &ids) const {
        std::vector<terrace_status> statuses(ids.size(), TERRACE_STATUS_OK);
        each(terrace_objects_remove_many(get_handle(), ids.data(), ids.size(), statuses.data()));
        return statuses;
    }

    /// Calls `each` with the ids of all objects greater than `after`, in ascending order.
    template <typename Each> void for_each_id(Each each, object_id after = 0) const {
        object_id ids[512];
        std::size_t count = 0;
        do {
            check(terrace_objects_ids(get_handle(), after, ids, 512, &count));
            for (std::size_t n = 0; n < count; n++) {
                each(ids[n]);
                after = ids[n];
            }
        } while (count == 512);
    }
    std::vector<terrace_id_range> id_ranges() const {
        std::vector<terrace_id_range> all;
        terrace_id_range ranges[64];
        std::size_t count = 0;
        do {
            const object_id after = all.empty() ? 0 : all.back().last;
            check(terrace_objects_id_ranges(get_handle(), after, ranges, 64, &count));
            all.insert(all.end(), ranges, ranges + count);
        } while (count == 64);
        return all;
    }

    /// Writes all objects to a file, as of one moment.
    void dump(const std::string &path) const {
        check(terrace_objects_dump(get_handle(), path.c_str()));
    }
    void sync() const { check(terrace_objects_sync(get_handle())); }
    void checkpoint() const { check(terrace_objects_checkpoint(get_handle())); }

    terrace_objects_stats stats() const {
        terrace_objects_stats stats;
        check(terrace_objects_get_stats(get_handle(), &stats));
        return stats;
    }
    terrace_objects_checked check_all() const {
        terrace_objects_checked checked;
        check(terrace_objects_check(get_handle(), &checked));
        return checked;
    }
    terrace_objects_defragmented defragment() const {
        terrace_objects_defragmented done;
        check(terrace_objects_defragment(get_handle(), &done));
        return done;
    }

    terrace_objects *get_handle() const noexcept { return handle_.get(); }

private:
    explicit objects(terrace_objects *owned) noexcept : handle_(owned) {}

    static void each(terrace_status status) {
        if (detail::is_of_all(status)) {
            check(status);
        }
    }

    detail::handle<terrace_objects> handle_;
};

} // namespace terrace

#endif // TERRACE_OBJECTS_HPP
