#pragma once
// The fields that one operation's variants or cases have and no other's: a value of a type that only that operation
// knows, copied and compared with the variant or case that holds it.
//
// Copies share the value until one of them is edited. Nothing set reads as T{}.

#include <memory>
#include <typeinfo>

#include "numerics/error.h"

namespace mxcheck {

class OwnFields {
 public:
  // T is copyable and has ==. Error{internal} for a T other than the one that was set: another operation's fields.
  template <class T>
  [[nodiscard]] const T& get() const {
    static const T kNothingSet{};
    return held_ == nullptr ? kNothingSet : as<T>(*held_).value;
  }
  template <class T>
  [[nodiscard]] T& edit() {
    auto own = std::make_shared<Holder<T>>(get<T>());
    T& value = own->value;
    held_ = std::move(own);
    return value;
  }

  friend bool operator==(const OwnFields& a, const OwnFields& b) {
    if (a.held_ == b.held_) return true;
    return a.held_ != nullptr ? a.held_->equals(b.held_.get()) : b.held_->equals(nullptr);
  }

 private:
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    [[nodiscard]] virtual bool equals(const Base* other) const = 0;  // null: a value that was not set
  };
  template <class T>
  struct Holder final : Base {
    explicit Holder(T from) : value(std::move(from)) {}
    [[nodiscard]] bool equals(const Base* other) const override {
      if (other == nullptr) return value == T{};
      return typeid(*other) == typeid(*this) && value == static_cast<const Holder&>(*other).value;
    }
    T value;
  };
  template <class T>
  static const Holder<T>& as(const Base& base) {
    if (typeid(base) != typeid(Holder<T>)) throw Error(ErrorKind::internal, "the fields of another operation");
    return static_cast<const Holder<T>&>(base);
  }

  std::shared_ptr<const Base> held_;
};

}  // namespace mxcheck
