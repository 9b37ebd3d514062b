//! The SDKs, each as a user has it: its built package, in a folder of its own, against a real dueq
//! that is killed and restarted. The programs that use it are `<language>/`, all with the same
//! subcommands; what they must print is the same for all four, and judged here.
//!
//! Run by `make test` for Python, by `make test-all` for every language whose toolchain is there, and by `make test-sdks`,
//! which wants all of them: the packages must have been built, so a plain `cargo test` leaves them out.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod example;
mod frameworks;
#[path = "../harness/mod.rs"]
mod harness;
mod orders;
mod program;
#[allow(dead_code)] // the proof uses more of it
#[path = "../proof/proxy.rs"]
mod proxy;
mod publish;
mod steps;
mod work;

macro_rules! sdks {
    ($($language:ident)*) => {$(
        mod $language {
            const LANGUAGE: &str = stringify!($language);

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn takes_the_steps() {
                crate::steps::taken(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn gives_back_the_payload_that_it_got() {
                crate::steps::echoed(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn handles_every_message_whatever_is_killed() {
                crate::work::killed(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn tells_a_handler_that_its_lease_is_lost_and_extends_the_others() {
                crate::work::lost(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn keeps_its_word_to_a_server_that_misbehaves() {
                crate::work::hard(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn the_example_in_the_guide_runs_as_it_stands() {
                crate::example::runs(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn publishes_once_however_often_connections_and_server_break() {
                crate::publish::through_faults(LANGUAGE).await;
            }

            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn an_order_service_does_what_it_says() {
                crate::orders::served(LANGUAGE).await;
            }
        }
    )*};
}

sdks!(python typescript go java);

/// The guide's programs that serve HTTP.
mod web {
    macro_rules! apps {
        ($($group:ident: $($name:ident $framework:literal),*;)*) => {$(
            mod $group {$(
                #[tokio::test]
                #[ignore = "needs the built package: make test-sdks"]
                async fn $name() {
                    crate::frameworks::serves($framework).await;
                }
            )*}
        )*};
    }

    // By language, but for those that only `make test-sdks` installs.
    apps! {
        python:
            fastapi_serves_works_and_stops_as_the_guide_says "FastAPI",
            django_serves_works_and_stops_as_the_guide_says "Django";
        typescript: express_serves_works_and_stops_as_the_guide_says "Express";
        go: net_http_serves_works_and_stops_as_the_guide_says "net/http";
        frameworks:
            nestjs_serves_works_and_stops_as_the_guide_says "NestJS",
            spring_boot_serves_works_and_stops_as_the_guide_says "Spring Boot";
    }

    mod receiver {
        mod python {
            #[tokio::test]
            #[ignore = "needs the built package: make test-sdks"]
            async fn verifies_callbacks_as_the_guide_says() {
                crate::frameworks::receives().await;
            }
        }
    }
}

/// What people generate by other tools than ours.
mod generators {
    use crate::harness::*;
    use crate::program::Program;

    async fn generates(name: &str) {
        Program::generator(name, &shared().await.dueq.url()).finished().await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn openapi_python_client_makes_a_client_that_works() {
        generates("openapi-python-client").await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn openapi_typescript_makes_types_that_openapi_fetch_works_by() {
        generates("openapi-typescript").await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn oapi_codegen_makes_a_client_that_works() {
        generates("oapi-codegen").await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn progenitor_makes_a_client_that_works() {
        generates("progenitor").await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn openapi_generator_makes_a_ruby_client_that_the_program_of_the_guide_works_by() {
        generates("ruby").await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn openapi_generator_makes_a_php_client_that_the_program_of_the_guide_works_by() {
        generates("php").await;
    }

    #[tokio::test]
    #[ignore = "needs the generator's toolchain: make test-sdks"]
    async fn openapi_generator_makes_a_csharp_client_that_has_the_methods_of_the_guide() {
        generates("csharp").await;
    }
}
