//! One suite of cases for every store: what [`LeaseStore`](crate::store::LeaseStore) promises, tried out.
//!
//! A backend's tests implement [`Bench`] and say `leasehold::store_conformance!(MyBench);` in a module of
//! their own: that makes one test a case. What a backend cannot do is named in its [`Deviations`], with the
//! reason. To add a case: a function in the file it belongs to, and its name in the list below; the compiler
//! finds a function that is not in the list.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a case fails by panicking, like any test"
)]

mod bench;
mod breaks;
mod concurrency;
mod conditions;
mod deletion;
mod documents;
mod duration;
mod listing;
mod names;
mod records;
mod table;

pub use bench::{Bench, Deviations};

/// Makes a public function and, in `store_conformance!`, a test of every case. `$dollar` is a dollar sign,
/// which a macro that defines a macro cannot write itself.
macro_rules! cases {
    ($dollar:tt $($group:ident { $($case:ident)+ })+) => {
        $($(
            #[doc = concat!("Tries out on a fresh bench: ", stringify!($case), ".")]
            ///
            /// # Panics
            /// When the store does not keep its contract.
            pub async fn $case<B: Bench>() {
                let bench = B::open(stringify!($case)).await;
                $group::$case(&bench).await;
            }
        )+)+

        /// Makes a test of every case of [`testing::conformance`](crate::testing::conformance), for the
        /// [`Bench`](crate::testing::conformance::Bench) that is named: put it into a module a backend.
        #[macro_export]
        macro_rules! store_conformance {
            ($dollar bench:ty) => {
                $($(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        $dollar crate::testing::conformance::$case::<$dollar bench>().await;
                    }
                )+)+
            };
        }
    };
}

cases! {
    $
    table {
        an_available_lock_answers_as_the_table_says
        a_leased_lock_answers_as_the_table_says
        a_breaking_lock_answers_as_the_table_says
        a_broken_lock_answers_as_the_table_says
        a_lock_whose_broken_lease_ran_out_answers_as_the_table_says
        an_expired_lock_answers_as_the_table_says
        s8_a_lock_that_is_not_there_is_not_found
        s18_acquire_makes_the_lock
    }
    duration {
        s6_acquire_under_the_same_id_restarts_the_duration
        s7_renew_restarts_the_duration
        s16_a_renewal_of_another_record_restarts_nothing
        a_lease_lasts_as_long_as_was_asked_for
        s6_renew_proves_that_nobody_leased_since
        s6_renew_proves_that_nobody_wrote_since
        s5_the_stores_clock_goes_forward
        s18_check_tells_the_stores_clock
    }
    conditions {
        s6_acquire_is_done_only_if_the_record_is_the_one_known
        s6_acquire_of_a_known_record_does_not_make_the_lock
        s6_a_late_duplicate_of_an_acquire_fails
        s12_acquire_of_a_lock_held_elsewhere_is_no_success_under_any_condition
        release_is_done_only_if_the_record_is_the_one_known
        s5_write_is_done_only_if_the_record_is_the_one_known
        s5_every_write_makes_an_etag_that_never_was
    }
    deletion {
        a_lock_that_nobody_has_leased_is_deleted_with_its_note
        a_lock_that_is_leased_is_not_deleted
        a_lock_whose_record_has_changed_is_not_deleted
        s5_a_lock_made_again_is_another
    }
    records {
        a_record_reads_back_as_it_was_written
        a_write_replaces_all_fields
        fields_of_others_are_kept_by_the_record
        a_record_outlives_its_lease
        the_fullest_record_is_kept
    }
    breaks {
        s17_a_broken_lease_runs_out_before_another_gets_the_lock
        s17_a_lease_broken_now_frees_the_lock_at_once
        s17_the_note_of_a_break_is_kept
        s17_the_latest_note_is_the_one
        s17_a_break_that_breaks_nothing_leaves_no_note
        s22_a_note_says_how_the_lease_was_broken
        s22_a_lease_that_was_ended_at_once_is_not_noted_as_running_out
        s22_a_breaking_lease_can_be_written_under_and_released
        s17_a_break_of_no_token_is_for_one_version_of_the_record
        s17_a_break_is_for_one_grant_whatever_is_written_of_it
    }
    documents {
        t3_a_plan_reads_back_byte_for_byte
        t3_a_plan_that_is_too_long_is_refused
        t3_a_plan_is_replaced_only_by_who_knows_it
        t3_a_plan_that_is_gone_has_changed
        t3_a_plan_may_be_there_before_its_lock
        t3_a_plan_is_written_and_deleted_without_the_lease
        t3_no_operation_on_the_lock_changes_the_plan
        t3_every_lock_has_a_plan_of_its_own
        t3_plans_are_listed_whether_or_not_their_locks_are_there
        t3_of_eight_writes_of_one_plan_one_is_done
        t3_of_eight_first_plans_one_is_written
        s18_the_first_plan_makes_its_container
        t21_a_lock_that_is_deleted_takes_its_plan_along
        t21_a_lock_that_is_not_deleted_keeps_its_plan
        t22_a_store_that_dotnet_cannot_share_says_so
        t22_a_status_reads_back_byte_for_byte
        t22_a_status_is_replaced_only_by_who_knows_it
        t22_a_status_belongs_to_no_lock
        t22_of_eight_writes_of_one_status_one_is_done
    }
    concurrency {
        s1_of_sixteen_acquires_of_a_new_lock_one_is_granted
        s1_of_sixteen_acquires_of_a_known_lock_one_is_granted
        s1_of_sixteen_acquires_of_an_expired_lock_one_is_granted
        s5_of_eight_writes_of_one_version_one_is_done
    }
    names {
        odd_names_of_the_readable_layout_are_locks_of_their_own
        odd_names_of_the_webjobs_layout_are_locks_of_their_own
    }
    listing {
        a_listing_shows_every_lock_once_in_order
        a_listing_shows_only_what_begins_with_the_prefix
        a_listing_shows_each_lock_as_reading_it_does
        a_listing_of_a_container_that_is_not_there_is_empty
    }
}
